import type { GatewayOptions } from "../pushgateway/exchange.ts";
import { isInTheClear } from "../secrets.ts";
import { logger } from "./lambda-log.ts";
import { fileOf, parameterText } from "./lambda-parameters.ts";
import { refuseCredentials, variable } from "./lambda-parts.ts";
import type { Parts } from "./lambda-parts.ts";

/** A Pushgateway and how to talk to it. */
export type Gateway = { readonly url: string; readonly options: GatewayOptions };

/**
 * PUSHGATEWAY_URL, with the header of PUSHGATEWAY_AUTH_HEADER_PARAMETER and the authority of PROMETHEUS_CA_PARAMETER; undefined
 * where there is no URL.
 * @throws GridmeterError `config_invalid`, `store_failed`
 */
export async function gatewayOf(parts: Parts): Promise<Gateway | undefined> {
  const url = variable(parts.env, "PUSHGATEWAY_URL");
  if (url === undefined) return undefined;
  refuseCredentials(parts.env, "PUSHGATEWAY_URL", "PUSHGATEWAY_AUTH_HEADER_PARAMETER");
  const [header, ca] = await Promise.all([
    parameterText(parts, "PUSHGATEWAY_AUTH_HEADER_PARAMETER"),
    parameterText(parts, "PROMETHEUS_CA_PARAMETER"),
  ]);
  if (header !== undefined && URL.canParse(url) && isInTheClear(new URL(url)))
    logger.warn("PUSHGATEWAY_URL is not https, so the header for it can be read on the way. Write https://.");
  return {
    url,
    options: {
      ...(header === undefined ? {} : { authHeader: header.trim() }),
      ...(ca === undefined ? {} : { caFile: await fileOf(ca) }),
    },
  };
}
