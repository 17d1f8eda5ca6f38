import type { Problem } from "./problems.ts";
import { type Draft, sourceOf } from "./tenant-draft.ts";

/** What can only be seen with all tenants side by side: each of these would count jobs twice at APEL. */
export function checkTogether(drafts: readonly Draft[]): Problem[] {
  return drafts.flatMap((draft, index) => {
    const earlier = drafts.slice(0, index);
    return [...samePods(draft, earlier), ...otherFormat(draft, earlier)];
  });
}

function samePods(draft: Draft, earlier: readonly Draft[]): Problem[] {
  const { NAMESPACE: namespace, PROMETHEUS_SERVER: server } = draft.values;
  if (namespace === undefined || server === undefined) return [];
  const twin = earlier.find((other) => selection(other) === selection(draft));
  if (twin === undefined) return [];
  return [
    {
      setting: "NAMESPACE",
      tenant: draft.name,
      quoted: JSON.stringify(namespace),
      text:
        `selects the same pods as the tenant ${JSON.stringify(twin.name)}, so every job would count twice. ` +
        "Give them different namespaces, PROMETHEUS_LABELS or servers, or split one tenant with VO_LABEL",
    },
  ];
}

function selection({ values }: Draft): string {
  const {
    NAMESPACE,
    PROMETHEUS_SERVER,
    PROMETHEUS_ORG_ID,
    PROMETHEUS_LABELS = [],
    PROMETHEUS_LABEL_PREFIX = "",
  } = values;
  const source = PROMETHEUS_SERVER === undefined ? "" : sourceOf({ PROMETHEUS_SERVER, PROMETHEUS_ORG_ID });
  return JSON.stringify([NAMESPACE, source, PROMETHEUS_LABELS, PROMETHEUS_LABEL_PREFIX]);
}

/** APEL: mixing message kinds for one site and month counts double; and a unit's tenants share its messages. */
function otherFormat(draft: Draft, earlier: readonly Draft[]): Problem[] {
  const { format } = draft;
  const site = draft.values.SITE_NAME;
  if (format === undefined || site === undefined) return [];
  const other = earlier.find(
    (candidate) => candidate.values.SITE_NAME === site && candidate.format !== undefined && candidate.format !== format,
  );
  if (other === undefined) return [];
  return [
    {
      setting: "MESSAGE_FORMAT",
      tenant: draft.name,
      quoted: JSON.stringify(format),
      text:
        `is the format for the site ${JSON.stringify(site)}, for which the tenant ${JSON.stringify(other.name)} publishes ` +
        `${other.format}; APEL would count the site twice. Use one format for all tenants of a site`,
    },
  ];
}
