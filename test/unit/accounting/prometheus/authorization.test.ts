import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, describe, expect, it } from "vitest";
import { authorization } from "../../../../lib/accounting/prometheus/auth.ts";

const folder = mkdtempSync(join(tmpdir(), "gridmeter-token-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

const jwt = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiJhIn0.c2ln-_bmF0dXJl";

describe("the Authorization header", () => {
  it("puts Bearer before a bare JWT", () => {
    expect(authorization({ authHeader: jwt })).toBe(`Bearer ${jwt}`);
    expect(authorization({ authHeader: `${jwt}\n` })).toBe(`Bearer ${jwt}`);
  });

  it.each([`Bearer ${jwt}`, "Basic dXNlcjpwdw==", "Bearer opaque", "opaque.token.here", "sometoken"])(
    "sends %s as it is",
    (value) => {
      expect(authorization({ authHeader: value })).toBe(value);
    },
  );

  it("is absent where nothing is set", () => {
    expect(authorization({})).toBeUndefined();
    expect(authorization({ authHeader: " " })).toBeUndefined();
  });

  it("reads the token file afresh each time", () => {
    const tokenFile = join(folder, "token");
    writeFileSync(tokenFile, "first\n");
    expect(authorization({ tokenFile })).toBe("Bearer first");
    writeFileSync(tokenFile, "second\n");
    expect(authorization({ tokenFile })).toBe("Bearer second");
  });

  it("names a token file that is missing or empty", () => {
    const tokenFile = join(folder, "none");
    expect(() => authorization({ tokenFile })).toThrow(tokenFile);
    writeFileSync(tokenFile, "\n");
    expect(() => authorization({ tokenFile })).toThrow(/is empty/);
  });

  it("refuses a line break without showing the secret", () => {
    expect(() => authorization({ authHeader: "Bearer s3cret\nX: y" })).toThrow(/^(?!.*s3cret)/s);
    expect(() => authorization({ authHeader: "Bearer s3cret\nX: y" })).toThrow(/line break/);
  });
});
