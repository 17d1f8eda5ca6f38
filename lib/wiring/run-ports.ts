import type { RunPorts } from "../accounting/run.ts";
import type { Tenant } from "../accounting/tenant.ts";
import type { Settings } from "../config/parse-settings.ts";
import { createClient } from "../prometheus/connection.ts";
import type { Client, Connection } from "../prometheus/connection.ts";
import { createMonitoring } from "../prometheus/monitoring.ts";
import type { ObjectStore } from "../store/object-store.ts";
import { GridmeterError } from "../errors.ts";

/** One client per connection, so that tenants of one Prometheus share its limit of queries at once. */
export function clientOf(settings: Settings): (tenant: Tenant) => Client {
  const clients = new Map<string, Client>();
  return (tenant) => {
    const connection = connectionOf(settings, tenant);
    const key = JSON.stringify(connection);
    const client = clients.get(key) ?? createClient(connection);
    clients.set(key, client);
    return client;
  };
}

function connectionOf(settings: Settings, tenant: Tenant): Connection {
  const found = settings.tenants.find((each) => each.tenant.name === tenant.name);
  if (found !== undefined) return found.connection;
  throw new TypeError(`no tenant ${tenant.name} in the settings`);
}

/** What an accounting run needs, built once from the settings. */
export function runPorts(settings: Settings, store: ObjectStore): RunPorts {
  const client = clientOf(settings);
  const namespaces = namespacesOf(settings);
  return { store, monitoring: (tenant) => createMonitoring(client(tenant), tenant.selection, namespaces) };
}

/** The namespaces of all tenants. */
export function namespacesOf(settings: Settings): readonly string[] {
  return settings.tenants.map(({ tenant }) => tenant.selection.namespace);
}

/** The names given with --tenant, all of which must be configured. */
export function chosenTenants(settings: Settings, names: readonly string[]): readonly string[] {
  const known = settings.tenants.map(({ tenant }) => tenant.name);
  const unknown = names.find((name) => !known.includes(name));
  if (unknown === undefined) return names;
  throw new GridmeterError(
    "usage",
    `There is no tenant "${unknown}"; nothing was published. Configured are: ${known.join(", ")}.`,
  );
}
