import { type KeyObject, X509Certificate, createPrivateKey } from "node:crypto";

const BEGIN = "-----BEGIN CERTIFICATE-----";
const END = "-----END CERTIFICATE-----";
/** The authorities of a whole distribution take a quarter of this, bytes. */
export const LARGEST_PEM = 1_000_000;

/** A PEM text, and how messages call the place that it is from: `the file "/etc/..." (AMS_KEY)`. */
export type NamedPem = { readonly name: string; readonly pem: string };

export const NO_CERTIFICATE = "holds no certificate in PEM form. Give a file with -----BEGIN CERTIFICATE-----";

/**
 * The first certificate of a text, its owner's own where it is a chain; undefined where there is none. All others are read too.
 * @throws Error where one of them cannot be read
 */
export function firstCertificate(pem: string): X509Certificate | undefined {
  const [first] = [...certificateTexts(pem)].map((one) => new X509Certificate(one));
  return first;
}

function* certificateTexts(pem: string): Generator<string> {
  for (let from = pem.indexOf(BEGIN); from !== -1; from = pem.indexOf(BEGIN, from)) {
    const end = pem.indexOf(END, from);
    if (end === -1) return;
    yield pem.slice(from, end + END.length);
    from = end + END.length;
  }
}

/** Why a certificate is not valid at an instant, or undefined. @param now epoch milliseconds */
export function validityFault({ validFrom, validTo }: X509Certificate, now: number): string | undefined {
  if (Date.parse(validTo) < now) return `expired at ${new Date(validTo).toISOString()}. Renew it`;
  if (Date.parse(validFrom) <= now) return undefined;
  return `is not valid before ${new Date(validFrom).toISOString()}. Check it and the clock of this machine`;
}

/** The private key of a text, or what is wrong with it and what to do. @throws Error where it cannot be read */
export function readPrivateKey(pem: string): { readonly pem: string; readonly key: KeyObject } | string {
  if (/ENCRYPTED/.test(pem)) {
    return "is encrypted, and nobody is there to type its passphrase. Give the key as `openssl pkey -in FILE` writes it, readable by this user only";
  }
  if (!/-----BEGIN [A-Z ]*PRIVATE KEY-----/.test(pem)) {
    return "holds no private key in PEM form. Give a file with -----BEGIN PRIVATE KEY-----";
  }
  return { pem, key: createPrivateKey(pem) };
}
