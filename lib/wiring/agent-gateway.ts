import { readFile } from "node:fs/promises";
import type { AgentGateway } from "../config/agent.ts";
import { GridmeterError, errorText } from "../errors.ts";
import type { GatewayOptions } from "../pushgateway/gateway.ts";

/**
 * How to talk to the agent's Pushgateway. Its files are read anew each time: tokens are replaced while the agent runs.
 * @throws GridmeterError `pushgateway_failed` if a file cannot be read any more
 */
export async function gatewayOptions(gateway: AgentGateway): Promise<GatewayOptions> {
  const { username, passwordFile, bearerTokenFile, caFile } = gateway;
  const header =
    bearerTokenFile !== undefined
      ? `Bearer ${await secret("bearerTokenFile", bearerTokenFile)}`
      : passwordFile !== undefined
        ? `Basic ${Buffer.from(`${username ?? ""}:${await secret("passwordFile", passwordFile)}`).toString("base64")}`
        : undefined;
  return { ...(header === undefined ? {} : { authHeader: header }), ...(caFile === undefined ? {} : { caFile }) };
}

async function secret(setting: string, path: string): Promise<string> {
  try {
    return (await readFile(path, "utf8")).trim();
  } catch (thrown) {
    throw new GridmeterError(
      "pushgateway_failed",
      `pushgateway.${setting}=${JSON.stringify(path)} cannot be read (${errorText(thrown)}). Nothing was sent to the Pushgateway. Bring the file back.`,
    );
  }
}
