import { authorizationOf } from "../agent/publish-credentials.ts";
import type { Credentials } from "../agent/publish-credentials.ts";
import type { AgentGateway } from "../config/agent.ts";
import type { GatewayOptions } from "../pushgateway/exchange.ts";

/** What gives the Authorization header for the configured Pushgateway, anew each time. */
export function authorization({ username, passwordFile, bearerTokenFile }: AgentGateway) {
  const credentials: Credentials = {
    ...(username === undefined ? {} : { username }),
    ...(passwordFile === undefined ? {} : { passwordFile }),
    ...(bearerTokenFile === undefined ? {} : { bearerTokenFile }),
  };
  return authorizationOf(credentials);
}

/** How to talk to the configured Pushgateway once. @throws GridmeterError `config_invalid` if a secret cannot be read */
export async function gatewayOptions(gateway: AgentGateway): Promise<GatewayOptions> {
  const header = await authorization(gateway)();
  const { caFile } = gateway;
  return { ...(header === undefined ? {} : { authHeader: header }), ...(caFile === undefined ? {} : { caFile }) };
}
