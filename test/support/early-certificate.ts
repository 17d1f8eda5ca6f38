// A host certificate that was issued some time ago, for programs whose clock is set back.
import { execFileSync } from "node:child_process";
import { mkdtempSync, readdirSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import type { Authority, Identity } from "./tls.ts";

/** `YYMMDDHHMMSSZ`, as openssl wants it. */
const asn1Time = (epoch: number): string =>
  `${new Date(epoch * 1000).toISOString().replaceAll(/[-:T]/g, "").slice(2, 14)}Z`;

/** A certificate of an authority that `makeAuthority` made, good from `from` (epoch seconds) on for 400 days. */
export function issueFrom({ caFile }: Authority, name: string, from: number): Identity {
  const folder = mkdtempSync(join(dirname(caFile), "early-"));
  const at = (file: string): string => join(folder, file);
  const openssl = (...args: readonly string[]): void =>
    void execFileSync("openssl", args, { stdio: ["ignore", "ignore", "pipe"] });
  const key = at("key.pem");
  openssl(
    "req",
    "-new",
    "-newkey",
    "rsa:2048",
    "-nodes",
    "-keyout",
    key,
    "-out",
    at("request.pem"),
    "-subj",
    `/CN=${name}`,
  );
  // `openssl ca` is the only one that takes a beginning; it wants a database of what it issued.
  writeFileSync(at("index"), "");
  writeFileSync(
    at("ca.cnf"),
    `[ca]\ndefault_ca = own\n[own]\ndatabase = ${at("index")}\nnew_certs_dir = ${folder}\nrand_serial = yes\ndefault_md = sha256\npolicy = any\n[any]\ncommonName = supplied\n`,
  );
  const signer = ["-cert", caFile, "-keyfile", caFile.replace(/\.pem$/, "-key.pem")];
  const times = ["-startdate", asn1Time(from), "-enddate", asn1Time(from + 400 * 86_400)];
  openssl(
    "ca",
    "-batch",
    "-notext",
    "-config",
    at("ca.cnf"),
    ...signer,
    ...times,
    "-in",
    at("request.pem"),
    "-out",
    at("cert.pem"),
  );
  if (!readdirSync(folder).includes("cert.pem")) throw new Error("openssl ca issued nothing");
  return { certFile: at("cert.pem"), keyFile: key };
}
