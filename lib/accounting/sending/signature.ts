// The signature that APEL's receiver checks: S/MIME as `openssl smime -sign -text` makes it, with a detached CMS SignedData
// (RFC 5652). Its frame is written here, in some forty lines of DER, since each field of it is fixed: a library that does RSA and EC
// (pkijs) brings six packages and WebCrypto, and Lambda's image has no openssl. The signature itself is Node's.
import { type X509Certificate, randomBytes, sign } from "node:crypto";
import type { HostIdentity } from "./host-certificate.ts";

const SHA256 = "608648016503040201";
const SIGNED_DATA = "2a864886f70d010702";
const DATA = "2a864886f70d010701";
const RSA = "2a864886f70d010101";
const ECDSA_SHA256 = "2a8648ce3d040302";

/**
 * Signs a message for APEL. The certificate goes along without its chain: the receiver takes the first certificate that it finds for
 * the signer's.
 * @param text ASCII, with line feeds
 * @returns the whole S/MIME message, with line feeds
 */
export function signMessage(text: string, { certificate, key, keyType }: HostIdentity): string {
  const content = `Content-Type: text/plain\r\n\r\n${text.replaceAll("\n", "\r\n")}`;
  const signature = sign("sha256", Buffer.from(content, "latin1"), key);
  const cms = signedData(certificate, keyType, signature).toString("base64");
  const boundary = `----${randomBytes(16).toString("hex").toUpperCase()}`;
  return [
    "MIME-Version: 1.0",
    `Content-Type: multipart/signed; protocol="application/x-pkcs7-signature"; micalg="sha-256"; boundary="${boundary}"`,
    "",
    "This is an S/MIME signed message",
    "",
    `--${boundary}`,
    "Content-Type: text/plain",
    "",
    text,
    `--${boundary}`,
    'Content-Type: application/x-pkcs7-signature; name="smime.p7s"',
    "Content-Transfer-Encoding: base64",
    'Content-Disposition: attachment; filename="smime.p7s"',
    "",
    ...(cms.match(/.{1,64}/g) ?? []),
    "",
    `--${boundary}--`,
    "",
    "",
  ].join("\n");
}

/** ContentInfo with SignedData, without signed attributes: the signature is of the content itself. */
function signedData(certificate: X509Certificate, keyType: HostIdentity["keyType"], signature: Buffer): Buffer {
  const { serial, issuer } = issuerAndSerial(certificate.raw);
  const digest = sequence(oid(SHA256), NULL);
  const algorithm = keyType === "rsa" ? sequence(oid(RSA), NULL) : sequence(oid(ECDSA_SHA256));
  const signer = sequence(ONE, sequence(issuer, serial), digest, algorithm, element(0x04, signature));
  const signed = sequence(
    ONE,
    element(0x31, digest),
    sequence(oid(DATA)),
    element(0xa0, certificate.raw),
    element(0x31, signer),
  );
  return sequence(oid(SIGNED_DATA), element(0xa0, signed));
}

const ONE = Buffer.from([0x02, 1, 1]);
const NULL = Buffer.from([0x05, 0]);

function oid(hex: string): Buffer {
  return element(0x06, Buffer.from(hex, "hex"));
}

function sequence(...parts: readonly Buffer[]): Buffer {
  return element(0x30, ...parts);
}

/** An element of DER: tag, length, content. */
function element(tag: number, ...parts: readonly Buffer[]): Buffer {
  const content = Buffer.concat(parts);
  const { length } = content;
  if (length < 0x80) return Buffer.concat([Buffer.from([tag, length]), content]);
  const digits = length.toString(16);
  const bytes = Buffer.from(digits.padStart(digits.length + (digits.length % 2), "0"), "hex");
  return Buffer.concat([Buffer.from([tag, 0x80 | bytes.length]), bytes, content]);
}

/** Issuer and serial number as the certificate has them, which Node has read before: it is well-formed. */
function issuerAndSerial(certificate: Buffer): { readonly serial: Buffer; readonly issuer: Buffer } {
  const [body] = elements(contentOf(certificate));
  const fields = elements(contentOf(body ?? certificate));
  // A version comes first, but in certificates of version 1.
  const [serial, , issuer] = fields[0]?.[0] === 0xa0 ? fields.slice(1) : fields;
  if (serial === undefined || issuer === undefined) throw new TypeError("The certificate has no issuer");
  return { serial, issuer };
}

function contentOf(encoded: Buffer): Buffer {
  const { header, length } = sizeOf(encoded);
  return encoded.subarray(header, header + length);
}

function elements(content: Buffer): readonly Buffer[] {
  const found: Buffer[] = [];
  for (let rest = content; rest.length > 0;) {
    const { header, length } = sizeOf(rest);
    found.push(rest.subarray(0, header + length));
    rest = rest.subarray(header + length);
  }
  return found;
}

function sizeOf(encoded: Buffer): { readonly header: number; readonly length: number } {
  const first = encoded[1] ?? 0;
  if (first < 0x80) return { header: 2, length: first };
  const bytes = first & 0x7f;
  return { header: 2 + bytes, length: encoded.readUIntBE(2, bytes) };
}
