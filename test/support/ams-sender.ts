import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { AmsClient, type AmsOptions } from "../../lib/accounting/sending/ams.ts";
import { readIdentity } from "../../lib/accounting/sending/host-certificate.ts";
import { Sender } from "../../lib/accounting/sending/sender.ts";
import { type AmsServer, startAms } from "./ams-server.ts";
import { NOW } from "./dirq-messages.ts";
import { type Authority, type Identity, makeAuthority } from "./tls.ts";

const pem = (file: string) => ({ name: `the file "${file}"`, pem: readFileSync(file, "latin1") });

/** The stand-in, an authority, and a host certificate of it, in a folder that `stop` removes. */
export type AmsSite = {
  readonly folder: string;
  readonly authority: Authority;
  readonly host: Identity;
  readonly ams: AmsServer;
  stop(): Promise<void>;
};

export async function startAmsSite(keyType?: "rsa" | "ec"): Promise<AmsSite> {
  const folder = mkdtempSync(join(tmpdir(), "gridmeter-ams-"));
  const authority = makeAuthority(folder, "authority");
  const host = authority.issue("host.example.org", 30, keyType);
  const ams = await startAms(authority);
  async function stop(): Promise<void> {
    await ams.stop();
    rmSync(folder, { recursive: true });
  }
  return { folder, authority, host, ams, stop };
}

/** The settings of sending to the stand-in, as variables of the environment. */
export const amsSettings = ({ authority, host, ams }: Pick<AmsSite, "authority" | "host" | "ams">) => ({
  AMS_HOST: ams.host,
  AMS_PORT: String(ams.port),
  AMS_AUTHN_PORT: String(ams.authnPort),
  AMS_CERTIFICATE: host.certFile,
  AMS_KEY: host.keyFile,
  AMS_CA_FILE: authority.caFile,
});

/** A client and a sender with a host certificate, at the stand-in. */
export function amsSender(
  ams: AmsServer,
  authority: Authority,
  { certFile, keyFile }: Identity,
  options: AmsOptions & { readonly topic?: string; readonly dryRun?: boolean; readonly port?: number } = {},
) {
  const { topic = "gLite-APEL", dryRun = false, port = ams.port, ...more } = options;
  const identity = readIdentity(pem(certFile), pem(keyFile), Math.floor(Date.now() / 1000));
  const client = new AmsClient(
    { host: ams.host, port, authnPort: ams.authnPort, project: "accounting", topic },
    identity,
    {
      authorities: [readFileSync(authority.caFile, "utf8")],
      firstWaitMs: 1,
      deadlineMs: 5000,
      ...more,
    },
  );
  return { client, identity, sender: new Sender({ client, identity, dryRun, now: () => NOW }) };
}
