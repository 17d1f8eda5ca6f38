import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, describe, expect, test } from "vitest";
import { certificateProblems, tlsAgent } from "../../../../lib/accounting/prometheus/certificates.ts";
import { encrypted, makeAuthority } from "../../../support/tls.ts";

const folder = mkdtempSync(join(tmpdir(), "gridmeter-certificates-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

const authority = makeAuthority(folder, "ca");
const one = authority.issue("one");
const other = authority.issue("other");
const old = authority.issue("old", -1);
const file = (name: string, text: string): string => {
  writeFileSync(join(folder, name), text);
  return join(folder, name);
};

describe("the files of a TLS connection", () => {
  test("that are good make an agent; none make none", () => {
    const files = { caFile: authority.caFile, clientCertFile: one.certFile, clientKeyFile: one.keyFile };
    expect(certificateProblems(files)).toEqual([]);
    expect(tlsAgent(files)?.options).toMatchObject({ cert: readFileSync(one.certFile, "utf8"), keepAlive: true });
    expect(tlsAgent({})).toBeUndefined();
    const chain = file("chain.pem", readFileSync(one.certFile, "utf8") + readFileSync(authority.caFile, "utf8"));
    expect(certificateProblems({ ...files, clientCertFile: chain })).toEqual([]);
  });

  const CERT = "PROMETHEUS_CLIENT_CERT_FILE";
  const KEY = "PROMETHEUS_CLIENT_KEY_FILE";
  const missing = join(folder, "missing.pem");
  const broken = file("broken.pem", readFileSync(one.certFile, "utf8").replace(/^M.{20}/m, "MIIB"));

  test.each<[what: string, files: object, setting: string, said: RegExp]>([
    [
      "a certificate without its key",
      { clientCertFile: one.certFile },
      CERT,
      /Name the key's file in PROMETHEUS_CLIENT_KEY/,
    ],
    ["a key without its certificate", { clientKeyFile: one.keyFile }, KEY, /Name the certificate's file in/],
    ["the key of another", { clientCertFile: one.certFile, clientKeyFile: other.keyFile }, KEY, /another key than/],
    [
      "an expired certificate",
      { clientCertFile: old.certFile, clientKeyFile: old.keyFile },
      CERT,
      /expired at 20.*Renew/,
    ],
    ["an encrypted key", { clientCertFile: one.certFile, clientKeyFile: encrypted(one) }, KEY, /openssl pkey -in/],
    [
      "a certificate in place of a key",
      { clientCertFile: one.certFile, clientKeyFile: one.certFile },
      KEY,
      /no private key/,
    ],
    [
      "a key in place of a certificate",
      { clientCertFile: one.keyFile, clientKeyFile: one.keyFile },
      CERT,
      /no certificate/,
    ],
    ["a certificate that is broken", { clientCertFile: broken, clientKeyFile: one.keyFile }, CERT, /cannot be read \(/],
    ["a missing file", { clientCertFile: missing, clientKeyFile: one.keyFile }, CERT, /ENOENT/],
    ["a directory", { caFile: folder }, "PROMETHEUS_CA_FILE", /directory/],
    ["an authority that is none", { caFile: file("ca.txt", "hello") }, "PROMETHEUS_CA_FILE", /BEGIN CERTIFICATE/],
  ])("%s is named, with what to do", (_, files, setting, said) => {
    const problems = certificateProblems(files);
    expect(problems).toHaveLength(1);
    expect(problems[0]).toMatchObject({ setting, text: expect.stringMatching(said) });
    const thrown = expect.objectContaining({ code: "config_invalid", message: expect.stringMatching(said) });
    expect(() => tlsAgent(files)).toThrow(thrown);
    expect(() => tlsAgent(files)).toThrow("Nothing was asked or published.");
  });

  test("all that is wrong is told at once", () => {
    const problems = certificateProblems({ caFile: missing, clientCertFile: old.certFile, clientKeyFile: missing });
    expect(problems.map(({ setting }) => setting)).toEqual(["PROMETHEUS_CA_FILE", CERT, KEY]);
  });
});
