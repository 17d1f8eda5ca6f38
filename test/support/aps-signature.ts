import { createHash, createHmac, timingSafeEqual } from "node:crypto";
import type { Passing } from "./gate.ts";

/** What an access key opens: the secret behind it and, for temporary credentials, the session token that goes with it. */
export type Key = { readonly secret: string; readonly token?: string };

const ALGORITHM = "AWS4-HMAC-SHA256";
const MINUTES = 60_000;
/** How far a request's date may be from the server's clock. */
const SKEW = 5 * MINUTES;
const AUTHORIZATION =
  /^AWS4-HMAC-SHA256 Credential=([^/]+)\/(\d{8})\/([^/]+)\/([^/]+)\/aws4_request, ?SignedHeaders=([a-z0-9;-]+), ?Signature=([0-9a-f]{64})$/;

const sha256 = (data: Buffer | string): string => createHash("sha256").update(data).digest("hex");
const hmac = (key: Buffer, data: string): Buffer => createHmac("sha256", key).update(data).digest();
/** RFC 3986; services other than S3 encode the path that was sent once more. */
const encode = (text: string): string =>
  encodeURIComponent(text).replace(/[!'()*]/g, (char) => `%${char.charCodeAt(0).toString(16).toUpperCase()}`);

/** The query string with names and values encoded once, sorted by name and then by value. A plus sign is one, and no space. */
function canonicalQuery(raw: string): string {
  const pairs = raw.split("&").filter((pair) => pair !== "");
  const parts = pairs.map((pair) => {
    const [name = "", ...value] = pair.split("=");
    return [name, value.join("=")].map((text) => encode(decodeURIComponent(text))).join("=");
  });
  return parts.toSorted().join("&");
}

/**
 * Checks the AWS Signature Version 4 of a request as Amazon describes it, by a computation of its own. Returns Amazon's
 * message for what is wrong, or undefined.
 */
export function signatureProblem(
  { method, path, headers, body }: Passing,
  keys: Readonly<Record<string, Key>>,
  region: string,
  now: number,
): string | undefined {
  const { authorization } = headers;
  if (authorization === undefined) return "Missing Authentication Token";
  const [, id = "", day = "", scopeRegion, service, signedNames = "", signature = ""] =
    AUTHORIZATION.exec(authorization) ?? [];
  if (id === "") return "Authorization header requires 'Credential' parameter.";
  if (service !== "aps") return "Credential should be scoped to correct service: 'aps'. ";
  if (scopeRegion !== region) return "Credential should be scoped to a valid region. ";
  const key = keys[id];
  if (key === undefined || headers["x-amz-security-token"] !== key.token)
    return "The security token included in the request is invalid.";

  const date = String(headers["x-amz-date"]);
  const sent = Date.parse(date.replace(/^(\d{4})(\d\d)(\d\d)T(\d\d)(\d\d)(\d\d)Z$/, "$1-$2-$3T$4:$5:$6Z"));
  if (!date.startsWith(day) || Number.isNaN(sent))
    return "Date in Credential scope does not match the date of the request.";
  const clock = new Date(now).toISOString().replace(/[-:]|\.\d+/g, "");
  if (sent < now - SKEW) return `Signature expired: ${date} is now earlier than the limit (${clock} - 5 min.)`;
  if (sent > now + SKEW) return `Signature not yet current: ${date} is still later than the limit (${clock} + 5 min.)`;

  const [rawPath = "", rawQuery = ""] = path.split("?", 2);
  const names = signedNames.split(";");
  const must = ["host", "x-amz-date", ...(key.token === undefined ? [] : ["x-amz-security-token"])];
  const payload = sha256(body);
  const said = headers["x-amz-content-sha256"];
  if (said !== undefined && said !== payload)
    return "The provided 'x-amz-content-sha256' header does not match what was computed.";
  const canonical = [
    method,
    rawPath.split("/").map(encode).join("/"),
    canonicalQuery(rawQuery),
    ...names.map(
      (name) =>
        `${name}:${String(headers[name] ?? "")
          .trim()
          .replace(/ +/g, " ")}`,
    ),
    "",
    signedNames,
    payload,
  ].join("\n");
  const scope = `${day}/${region}/aps/aws4_request`;
  const signing = [day, region, "aps", "aws4_request"].reduce(hmac, Buffer.from(`AWS4${key.secret}`));
  const computed = hmac(signing, [ALGORITHM, date, scope, sha256(canonical)].join("\n"));
  const isSame = timingSafeEqual(computed, Buffer.from(signature, "hex"));
  if (isSame && must.every((name) => names.includes(name))) return undefined;
  return "The request signature we calculated does not match the signature you provided. Check your AWS Secret Access Key and signing method.";
}
