import { spawnSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

/**
 * The text of a signed message as openssl hands it out once it has verified the signature against the authority; throws what openssl
 * says where it does not. Line ends are those of the text that was signed.
 */
export function verified(signed: string, caFile: string, tool: "smime" | "cms"): string {
  const folder = mkdtempSync(join(tmpdir(), "gridmeter-smime-"));
  try {
    const [message, content] = [join(folder, "message"), join(folder, "content")];
    writeFileSync(message, signed, "latin1");
    const args = [tool, "-verify", "-in", message, "-CAfile", caFile, "-purpose", "any", "-out", content];
    const { status, stderr } = spawnSync("openssl", args, { encoding: "utf8" });
    if (status !== 0) throw new Error(stderr);
    const [header, ...body] = readFileSync(content, "latin1").split("\r\n\r\n");
    if (header !== "Content-Type: text/plain") throw new Error(`The content begins with ${header}`);
    return body.join("\r\n\r\n").replaceAll("\r\n", "\n");
  } finally {
    rmSync(folder, { recursive: true });
  }
}

/** How many certificates a signed message carries. */
export function certificatesIn(signed: string): number {
  const { stdout } = spawnSync("bash", ["-c", "openssl smime -pk7out | openssl pkcs7 -print_certs -noout"], {
    input: signed,
    encoding: "utf8",
  });
  return stdout.split("\n").filter((line) => line.startsWith("subject=")).length;
}
