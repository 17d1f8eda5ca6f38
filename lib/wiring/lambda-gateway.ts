import type { GatewayOptions } from "../pushgateway/exchange.ts";
import { fileOf, parameterText } from "./lambda-parameters.ts";
import { variable } from "./lambda-parts.ts";
import type { Parts } from "./lambda-parts.ts";

/** A Pushgateway and how to talk to it. */
export type Gateway = { readonly url: string; readonly options: GatewayOptions };

/**
 * PUSHGATEWAY_URL (user and password in it are sent as Basic authentication), with the header of
 * PUSHGATEWAY_AUTH_HEADER_PARAMETER and the authority of PROMETHEUS_CA_PARAMETER; undefined where there is no URL.
 * @throws GridmeterError `config_invalid`, `store_failed`
 */
export async function gatewayOf(parts: Parts): Promise<Gateway | undefined> {
  const url = variable(parts.env, "PUSHGATEWAY_URL");
  if (url === undefined) return undefined;
  const [header, ca] = await Promise.all([
    parameterText(parts, "PUSHGATEWAY_AUTH_HEADER_PARAMETER"),
    parameterText(parts, "PROMETHEUS_CA_PARAMETER"),
  ]);
  return {
    url,
    options: {
      ...(header === undefined ? {} : { authHeader: header.trim() }),
      ...(ca === undefined ? {} : { caFile: await fileOf(ca) }),
    },
  };
}
