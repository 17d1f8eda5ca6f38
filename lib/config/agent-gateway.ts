import { accessSync, constants, statSync } from "node:fs";
import { resolve } from "node:path";
import { errorText } from "../errors.ts";
import { isInTheClear } from "../secrets.ts";
import type { AgentProblem } from "./agent-problems.ts";
import { isMapping } from "./agent-values.ts";
import { maskServer } from "./server.ts";

const IN_URL = "a user in url";
const FILES = ["passwordFile", "bearerTokenFile", "caFile"] as const;

/**
 * What is wrong about the section `pushgateway` as a whole: files that cannot be read, credentials of two kinds, half of them, or
 * of another server. Looks at what was written, so that it is said together with all else.
 * @param given the section as it stands in the file, before an option or a variable took the place of its address
 */
export function gatewayProblems(written: unknown, directory: string, given: unknown = written): AgentProblem[] {
  if (!isMapping(written)) return [];
  const has = (key: string): boolean => written[key] !== undefined && written[key] !== null;
  const tell = (key: string, text: string): AgentProblem => ({ setting: `pushgateway.${key}`, text });
  const inUrl = typeof written["url"] === "string" && hasCredentials(written["url"]);
  const kinds = [
    ...(inUrl ? [IN_URL] : []),
    ...(has("username") || has("passwordFile") ? ["username and passwordFile"] : []),
    ...(has("bearerTokenFile") ? ["bearerTokenFile"] : []),
  ];
  return [
    ...(has("url") || Object.keys(written).length === 0
      ? []
      : [tell("url", "is not set, so nothing could be pushed. Write for example http://pushgateway:9091")]),
    ...(kinds.length > 1
      ? [{ setting: "pushgateway", text: `has ${kinds.join(" and ")}, of which only one can be sent. Leave one` }]
      : []),
    ...(has("username") && !has("passwordFile")
      ? [tell("passwordFile", "is not set, but username is. Write the path of the file with the password")]
      : []),
    ...(has("passwordFile") && !has("username")
      ? [tell("username", "is not set, but passwordFile is. Write whose password it is")]
      : []),
    ...(isOther(written["url"], isMapping(given) ? given["url"] : undefined) && kinds.some((kind) => kind !== IN_URL)
      ? [
          tell(
            "url",
            "is replaced by an address with another scheme, host or port, which would get the credentials that the file has for this one. Write the address into the file, or take them out of it",
          ),
        ]
      : []),
    ...FILES.flatMap((key) => {
      const path = written[key];
      const why = typeof path === "string" ? unreadable(resolve(directory, path.trim())) : undefined;
      return why === undefined ? [] : [{ ...tell(key, why), quoted: JSON.stringify(path) }];
    }),
  ];
}

type Gateway = {
  readonly url?: string | undefined;
  readonly passwordFile?: string | undefined;
  readonly bearerTokenFile?: string | undefined;
  readonly caFile?: string | undefined;
};

/** The section with absolute paths; undefined without a URL. */
export function rootedGateway<T extends Gateway>(gateway: T | undefined, directory: string) {
  if (gateway?.url === undefined) return undefined;
  const at = (path: string | undefined): string | undefined =>
    path === undefined ? undefined : resolve(directory, path);
  return {
    ...gateway,
    url: gateway.url,
    passwordFile: at(gateway.passwordFile),
    bearerTokenFile: at(gateway.bearerTokenFile),
    caFile: at(gateway.caFile),
  };
}

function isOther(url: unknown, given: unknown): boolean {
  if (typeof url !== "string" || typeof given !== "string" || !URL.canParse(url) || !URL.canParse(given)) return false;
  return new URL(url).origin !== new URL(given).origin;
}

/** What is allowed about it and yet seldom meant; undefined if nothing is. */
export function gatewayWarning(
  gateway: (Gateway & { readonly username?: string | undefined }) | undefined,
): string | undefined {
  if (gateway?.url === undefined || !isInTheClear(new URL(gateway.url))) return undefined;
  const { url, username, bearerTokenFile } = gateway;
  if (username === undefined && bearerTokenFile === undefined && !hasCredentials(url)) return undefined;
  return `the Pushgateway's address ${maskServer(url)} is not https, so the credentials for it can be read on the way; write https://`;
}

function hasCredentials(text: string): boolean {
  const url = URL.canParse(text) ? new URL(text) : undefined;
  return url !== undefined && (url.username !== "" || url.password !== "");
}

function unreadable(path: string): string | undefined {
  try {
    accessSync(path, constants.R_OK);
    return statSync(path).isDirectory() ? "is a directory. Write the path of a readable file" : undefined;
  } catch (error) {
    return `cannot be read (${errorText(error)}). Write the path of a readable file`;
  }
}
