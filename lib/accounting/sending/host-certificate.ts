import type { KeyObject, X509Certificate } from "node:crypto";
import { GridmeterError, errorText } from "../../shared/errors.ts";
import { NO_CERTIFICATE, type NamedPem, firstCertificate, readPrivateKey, validityFault } from "../../shared/pem.ts";

/** The certificate and key with which a site signs, and by which AMS knows it. */
export type HostIdentity = {
  readonly certificate: X509Certificate;
  readonly key: KeyObject;
  readonly keyType: "rsa" | "ec";
  /** both as texts, for TLS */
  readonly pem: { readonly cert: string; readonly key: string };
  /** the name as GOCDB and APEL hold it: /DC=org/O=example/CN=host.example.org */
  readonly name: string;
  /** epoch seconds */
  readonly endsAt: number;
};

const DAY = 86_400;
/** ssmsend refuses to start with less. */
const LEAST_LEFT = DAY;
const WARNED_BELOW = 14 * DAY;

/**
 * Reads certificate and key, and refuses what APEL would: a certificate that is not valid or ends within 24 hours, and one that does
 * not belong to the key.
 * @param now epoch seconds
 * @throws GridmeterError `certificate_invalid`
 */
export function readIdentity(certificate: NamedPem, key: NamedPem, now: number): HostIdentity {
  const found = read(certificate, (pem) => firstCertificate(pem) ?? NO_CERTIFICATE);
  const fault = validityFault(found, now * 1000);
  if (fault !== undefined) throw invalid(certificate, fault);
  const endsAt = Math.floor(Date.parse(found.validTo) / 1000);
  if (endsAt - now < LEAST_LEFT)
    throw invalid(certificate, `ends within 24 hours, at ${new Date(endsAt * 1000).toISOString()}. Renew it`);
  const own = read(key, readPrivateKey);
  const { asymmetricKeyType: type } = own.key;
  if (type !== "rsa" && type !== "ec")
    throw invalid(key, `is a key of the type ${type ?? "unknown"}, which APEL's receiver does not know. Use RSA or EC`);
  if (!found.checkPrivateKey(own.key))
    throw invalid(key, `holds another key than that of ${certificate.name}. Give the pair`);
  return {
    certificate: found,
    key: own.key,
    keyType: type,
    pem: { cert: certificate.pem, key: key.pem },
    name: slashName(found.subject),
    endsAt,
  };
}

/** What to say of a certificate that ends within 14 days; undefined where there is time. @param now epoch seconds */
export function endWarning({ name, endsAt }: HostIdentity, now: number): string | undefined {
  if (endsAt - now >= WARNED_BELOW) return undefined;
  const days = Math.floor((endsAt - now) / DAY);
  return `The certificate of ${name} ends in ${days} days, at ${new Date(endsAt * 1000).toISOString()}. Renew it: from 24 hours before its end nothing is sent with it.`;
}

/** OpenSSL's lines `O=example` as one name, in the order of the certificate; commas and the like are not escaped in it. */
function slashName(subject: string): string {
  return subject
    .split("\n")
    .map((part) => `/${part.replaceAll(/\\([,+"\\<>;=# ])/g, "$1")}`)
    .join("");
}

function read<T>(source: NamedPem, parse: (pem: string) => T | string): T {
  let parsed: T | string;
  try {
    parsed = parse(source.pem);
  } catch (thrown) {
    throw invalid(source, `cannot be read (${errorText(thrown)}). Give it in PEM form`);
  }
  if (typeof parsed === "string") throw invalid(source, parsed);
  return parsed;
}

function invalid({ name }: NamedPem, text: string): GridmeterError {
  const [start = "", ...rest] = name;
  return new GridmeterError("certificate_invalid", `${start.toUpperCase()}${rest.join("")} ${text}. Nothing was sent.`);
}
