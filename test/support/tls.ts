import { execFileSync } from "node:child_process";
import { writeFileSync } from "node:fs";
import { join } from "node:path";

/** A certificate and its private key. */
export type Identity = { readonly certFile: string; readonly keyFile: string };

export type Authority = {
  readonly caFile: string;
  /** A certificate for 127.0.0.1, good for so many days; one of less than 0 days has expired. */
  issue(name: string, days?: number, kind?: keyof typeof KINDS): Identity;
};

const EC = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1"];
const KEY = [...EC, "-nodes"];
const KINDS = {
  ec: EC,
  "ec-384": ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:secp384r1"],
  rsa: ["-newkey", "rsa:2048"],
  ed25519: ["-newkey", "ed25519"],
};

function openssl(...args: readonly string[]): string {
  return execFileSync("openssl", args, { stdio: ["ignore", "pipe", "ignore"], encoding: "utf8" });
}

/** A certificate authority of one's own, made with openssl in the folder. */
export function makeAuthority(folder: string, name: string): Authority {
  const caFile = join(folder, `${name}.pem`);
  const caKey = join(folder, `${name}-key.pem`);
  openssl("req", "-x509", ...KEY, "-days", "2", "-keyout", caKey, "-out", caFile, "-subj", `/CN=${name}`);
  return {
    caFile,
    issue: (subject, days = 2, kind = "ec") => {
      const [certFile, keyFile, request] = ["cert", "key", "request"].map((part) =>
        join(folder, `${name}-${subject}-${part}.pem`),
      ) as [string, string, string];
      const names = ["-subj", `/DC=org/O=Example, Inc/CN=${subject}`, "-addext", "subjectAltName=IP:127.0.0.1"];
      openssl("req", "-new", ...KINDS[kind], "-nodes", "-keyout", keyFile, "-out", request, ...names);
      const signer = ["-CA", caFile, "-CAkey", caKey, "-days", String(days), "-copy_extensions", "copy"];
      openssl("x509", "-req", "-in", request, ...signer, "-out", certFile);
      return { certFile, keyFile };
    },
  };
}

/** The key as a file that only a passphrase opens. */
export function encrypted({ keyFile }: Identity): string {
  const file = keyFile.replace(".pem", "-encrypted.pem");
  writeFileSync(file, openssl("pkey", "-in", keyFile, "-aes256", "-passout", "pass:open sesame"));
  return file;
}
