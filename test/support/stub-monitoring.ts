import type { Monitoring } from "../../lib/accounting/model/monitoring.ts";

/** A monitoring in which there is nothing, but for what is given. */
export function stubMonitoring(own: Partial<Monitoring> = {}): Monitoring {
  return {
    facts: () => Promise.resolve(),
    seen: () => Promise.resolve({ cells: [], partly: [], upOnly: [], silent: [] }),
    presence: () => Promise.resolve(new Set()),
    sample: () => Promise.resolve([]),
    namespaces: () => Promise.resolve({ names: [], prefixes: [] }),
    voLabelSeen: () => Promise.resolve(false),
    voLabelSplit: () => Promise.resolve(0),
    ...own,
  };
}

/** Another monitoring, but for what is given. */
export function changedMonitoring(real: Monitoring, own: Partial<Monitoring>): Monitoring {
  return {
    facts: (fact, window, take, only) => real.facts(fact, window, take, only),
    seen: (window) => real.seen(window),
    presence: (of, window) => real.presence(of, window),
    sample: (window, most) => real.sample(window, most),
    namespaces: (window) => real.namespaces(window),
    voLabelSeen: (window) => real.voLabelSeen(window),
    voLabelSplit: (window) => real.voLabelSplit(window),
    ...own,
  };
}
