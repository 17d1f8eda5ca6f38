import { loadSettings } from "../config/load.ts";
import type { LoadedSettings } from "../config/load.ts";
import { GridmeterError } from "../errors.ts";
import { logger } from "./lambda-log.ts";
import { fileOf, objectText, parameterText } from "./lambda-parameters.ts";
import { refuseCredentials, variable } from "./lambda-parts.ts";
import type { Parts } from "./lambda-parts.ts";

/** The event says what the run covers, and the bucket is where its messages go and its ledger is. */
const NOT_HERE = ["PUBLISHING_MODE", "QUERY_START", "QUERY_END", "OUTPUT_PATH", "LEDGER_PATH"];

/**
 * The settings of a function: the command line's variables, and those of which only a name stands in the environment
 * (PROMETHEUS_AUTH_HEADER_PARAMETER, PROMETHEUS_CA_PARAMETER, PROMETHEUS_CLIENT_CERT_PARAMETER,
 * PROMETHEUS_CLIENT_KEY_PARAMETER, TENANTS_PARAMETER, TENANTS_OBJECT).
 * @throws GridmeterError `config_invalid` with all that is wrong; `store_failed` if a parameter cannot be read
 */
export async function lambdaSettings(parts: Parts): Promise<LoadedSettings> {
  const { env } = parts;
  const named = ["TENANTS_PARAMETER", "TENANTS_OBJECT", "TENANTS_FILE"].filter((name) => variable(env, name));
  if (named.length > 1) {
    const text = `${named.join(" and ")} are set, and it is not clear which holds. Nothing was published. Set one of them.`;
    throw new GridmeterError("config_invalid", text);
  }
  refuseCredentials(env, "PROMETHEUS_SERVER", "PROMETHEUS_AUTH_HEADER_PARAMETER");
  const [header, ca, clientCert, clientKey, listed, stored] = await Promise.all([
    parameterText(parts, "PROMETHEUS_AUTH_HEADER_PARAMETER"),
    parameterText(parts, "PROMETHEUS_CA_PARAMETER"),
    parameterText(parts, "PROMETHEUS_CLIENT_CERT_PARAMETER"),
    parameterText(parts, "PROMETHEUS_CLIENT_KEY_PARAMETER"),
    parameterText(parts, "TENANTS_PARAMETER"),
    objectText(parts, "TENANTS_OBJECT"),
  ]);
  const tenants = listed ?? stored;
  const settings = loadSettings({
    env: {
      ...Object.fromEntries(Object.entries(env).filter(([name]) => !NOT_HERE.includes(name))),
      ...(header === undefined ? {} : { PROMETHEUS_AUTH_HEADER: header.trim() }),
      ...(ca === undefined ? {} : { PROMETHEUS_CA_FILE: await fileOf(ca) }),
      ...(clientCert === undefined ? {} : { PROMETHEUS_CLIENT_CERT_FILE: await fileOf(clientCert) }),
      ...(clientKey === undefined ? {} : { PROMETHEUS_CLIENT_KEY_FILE: await fileOf(clientKey) }),
      ...(tenants === undefined ? {} : { TENANTS_FILE: await fileOf(tenants) }),
    },
  });
  for (const warning of settings.warnings) logger.warn(warning);
  return settings;
}

/**
 * The settings with each query's limit cut to `seconds`. A function that is ended in the middle of a query learns nothing;
 * one whose query was refused in time asks for less at once.
 */
export function withQueryLimit(settings: LoadedSettings, seconds: number): LoadedSettings {
  const tenants = settings.tenants.map(({ tenant, connection }) => ({
    tenant,
    connection: {
      ...connection,
      timeoutSeconds: Math.max(1, Math.min(connection.timeoutSeconds, Math.floor(seconds))),
    },
  }));
  return { ...settings, tenants };
}
