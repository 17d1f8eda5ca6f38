import { readFileSync } from "node:fs";
import { AmsClient, type AmsOptions } from "../../lib/accounting/sending/ams.ts";
import { readIdentity } from "../../lib/accounting/sending/host-certificate.ts";
import { Sender } from "../../lib/accounting/sending/sender.ts";
import type { AmsServer } from "./ams-server.ts";
import { NOW } from "./dirq-messages.ts";
import type { Authority, Identity } from "./tls.ts";

const pem = (file: string) => ({ name: `the file "${file}"`, pem: readFileSync(file, "latin1") });

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
