import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { array, assert, constantFrom, property, string } from "fast-check";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { endWarning, readIdentity } from "../../../../lib/accounting/sending/host-certificate.ts";
import { signMessage } from "../../../../lib/accounting/sending/signature.ts";
import { generationMessages, unit } from "../../../support/dirq-messages.ts";
import { certificatesIn, verified } from "../../../support/smime.ts";
import { type Authority, type Identity, encrypted, makeAuthority } from "../../../support/tls.ts";

let folder: string;
let authority: Authority;
beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), "gridmeter-signature-"));
  authority = makeAuthority(folder, "authority");
});
afterAll(() => rmSync(folder, { recursive: true }));

const DAY = 86_400;
/** The certificates are made after it. */
const now = Math.floor(Date.now() / 1000) + 60;
const pem = (file: string) => ({ name: `the file "${file}"`, pem: readFileSync(file, "latin1") });
const identityOf = ({ certFile, keyFile }: Identity, at = now) => readIdentity(pem(certFile), pem(keyFile), at);

describe("a signature", () => {
  test.each(["rsa", "ec", "ec-384"] as const)("with a key of %s is one that smime and cms verify", (kind) => {
    const identity = identityOf(authority.issue(`host-${kind}`, 30, kind));
    for (const { body } of generationMessages(unit, 3)) {
      const signed = signMessage(body, identity);
      expect(verified(signed, authority.caFile, "smime")).toBe(body);
      expect(verified(signed, authority.caFile, "cms")).toBe(body);
      // With the chain, APEL's receiver takes the authority for the signer.
      expect(certificatesIn(signed)).toBe(1);
      expect(signed).toMatch(
        /^MIME-Version: 1\.0\nContent-Type: multipart\/signed; protocol="application\/x-pkcs7-signature"; micalg="sha-256"/,
      );
    }
  });

  test("holds for a chain too, whose first certificate is the signer's", () => {
    const own = authority.issue("host-chain", 30);
    const chain = { name: "chain", pem: readFileSync(own.certFile, "utf8") + readFileSync(authority.caFile, "utf8") };
    const signed = signMessage("a\n", readIdentity(chain, pem(own.keyFile), now));
    expect([verified(signed, authority.caFile, "cms"), certificatesIn(signed)]).toEqual(["a\n", 1]);
  });

  test("holds for any text of ASCII, as it is", () => {
    const identity = identityOf(authority.issue("host-any", 30));
    const line = string({ unit: constantFrom("a", "-", " ", ".", "%", "=", ":"), maxLength: 90 });
    assert(
      property(array(line, { minLength: 1, maxLength: 6 }), (lines) => {
        const text = `${lines.join("\n")}\n`;
        expect(verified(signMessage(text, identity), authority.caFile, "cms")).toBe(text);
      }),
      { numRuns: 10 },
    );
  });

  test("is refused once a byte of the text is another one", () => {
    const signed = signMessage("NumberOfJobs: 1\n", identityOf(authority.issue("host-changed", 30)));
    expect(() => verified(signed.replace("Jobs: 1", "Jobs: 2"), authority.caFile, "cms")).toThrow(
      /digest|verif|signature/i,
    );
  });
});

describe("a host certificate", () => {
  test("is called as GOCDB holds it, and says when it ends", () => {
    const identity = identityOf(authority.issue("host.example.org", 30));
    expect(identity.name).toBe("/DC=org/O=Example, Inc/CN=host.example.org");
    expect(identity.endsAt - now).toBeGreaterThan(29 * DAY);
    expect(endWarning(identity, now)).toBeUndefined();
    expect(endWarning(identity, now + 20 * DAY)).toMatch(/ends in 9 days/);
  });

  test.each([
    ["expired", -1, now, /expired at .*Renew it/],
    ["not yet valid", 30, now - DAY, /is not valid before/],
    ["at its end", 1, now + DAY / 2, /ends within 24 hours/],
  ])("that is %s is refused", (name, days, at, error) => {
    const identity = authority.issue(`host-${name.replaceAll(" ", "-")}`, days);
    expect(() => identityOf(identity, at)).toThrow(error);
    expect(() => identityOf(identity, at)).toThrow(expect.objectContaining({ code: "certificate_invalid" }));
  });

  test("of another key, an encrypted key, a key of another kind and texts that are none are refused", () => {
    const [one, other] = [authority.issue("one", 30), authority.issue("other", 30)];
    const refused = (cert: string, key: string) => () => readIdentity(pem(cert), pem(key), now);
    expect(refused(one.certFile, other.keyFile)).toThrow(/holds another key than that of the file .*Nothing was sent/);
    expect(refused(one.certFile, encrypted(one))).toThrow(/is encrypted/);
    expect(refused(one.keyFile, one.keyFile)).toThrow(/holds no certificate/);
    expect(refused(one.certFile, one.certFile)).toThrow(/holds no private key/);
    const ed = authority.issue("ed", 30, "ed25519");
    expect(refused(ed.certFile, ed.keyFile)).toThrow(/type ed25519.*Use RSA or EC/);
    const torn = { name: "torn", pem: "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n" };
    expect(() => readIdentity(torn, pem(one.keyFile), now)).toThrow(/^Torn cannot be read/);
  });
});
