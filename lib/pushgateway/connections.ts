import { readFileSync } from "node:fs";
import { Agent } from "node:http";
import { GridmeterError, errorText } from "../errors.ts";

/** Connections to a gateway, which may be kept open between exchanges. */
export type Connections = {
  /** what holds the connections for an address; https is loaded for the first address that needs it */
  agentFor(url: URL): Promise<Agent>;
  /** closes them all; they are not to be used afterwards */
  close(): void;
};

/** A kept connection that nobody uses is closed after this. */
const IDLE_MS = 60_000;

/**
 * Keeps connections to a gateway for a program that pushes again and again.
 * @param caFile PEM file of a further authority to trust, read now
 * @throws GridmeterError `config_invalid` if it cannot be read
 */
export function keepConnections(caFile?: string): Connections {
  const authority = caFile === undefined ? undefined : readable(caFile);
  // The variables that say which proxy is to be used; Node before 24.5 does not know of them.
  const kept = { keepAlive: true, timeout: IDLE_MS, proxyEnv: process.env };
  const http = new Agent(kept);
  let https: Promise<Agent> | undefined;
  return {
    agentFor: async ({ protocol }) => {
      if (protocol === "http:") return http;
      return await (https ??= httpsAgent(kept, authority));
    },
    close: () => {
      http.destroy();
      void https?.then((agent) => agent.destroy());
    },
  };
}

/** TLS takes 8 MB of memory, which an agent that pushes within a cluster has no use for. */
async function httpsAgent(kept: object, authority: Buffer | undefined): Promise<Agent> {
  const { Agent: HttpsAgent } = await import("node:https");
  if (authority === undefined) return new HttpsAgent(kept);
  const { createSecureContext, rootCertificates } = await import("node:tls");
  // One for all connections: given the authorities, each of them would read a hundred and fifty certificates anew.
  const secureContext = createSecureContext({ ca: [...rootCertificates, authority] });
  return new HttpsAgent({ ...kept, secureContext });
}

function readable(caFile: string): Buffer {
  try {
    return readFileSync(caFile);
  } catch (thrown) {
    throw new GridmeterError(
      "config_invalid",
      `The file "${caFile}" of the Pushgateway's authority could not be read: ${errorText(thrown)}. Nothing was pushed. Give a PEM file that this user may read.`,
      { cause: thrown },
    );
  }
}
