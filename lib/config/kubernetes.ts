import { bad, good, type Parsed } from "./parsed.ts";

/** A namespace's name (Kubernetes: RFC 1123 label, at most 63 characters). */
export function parseNamespace(text: string): Parsed<string> {
  return /^[a-z0-9]([-a-z0-9]*[a-z0-9])?$/.test(text) && text.length <= 63
    ? good(text)
    : bad("is not a Kubernetes namespace (small letters, digits and -, at most 63). Write exactly one");
}

/**
 * Reads VO_LABEL, a pod label such as `example.org/vo`, and gives its name in `kube_pod_labels`: `label_example_org_vo`.
 * kube-state-metrics replaces every character outside [a-zA-Z0-9_] by `_`, splits camelCase by `_` and writes it small
 * (internal/store/utils.go).
 */
export function parseVoLabel(text: string): Parsed<string> {
  const [name = "", ...prefixes] = text.split("/").toReversed();
  const nameIsValid = /^[A-Za-z0-9]([-\w.]*[A-Za-z0-9])?$/.test(name) && name.length <= 63;
  const prefixIsValid = prefixes.every((prefix) => /^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$/.test(prefix));
  if (!nameIsValid || !prefixIsValid || prefixes.length > 1) {
    return bad("is not the name of a pod label");
  }
  const snake = text.replaceAll(/[^a-zA-Z0-9_]/g, "_").replaceAll(/([a-z0-9])([A-Z])/g, "$1_$2");
  return good(`label_${snake.toLowerCase()}`);
}

export function parseLabelPrefix(text: string): Parsed<string> {
  return /^[a-zA-Z_]\w*$/.test(text) ? good(text) : bad("cannot begin a Prometheus label (letters, digits and _)");
}

/** MONITORING_SELECTOR: only its outline is checked here, Prometheus judges the rest. */
export function parseSelector(text: string): Parsed<string> {
  return /^([a-zA-Z_:][\w:]*\s*(\{[^\n\r]*\})?|\{[^\n\r]+\})$/.test(text)
    ? good(text)
    : bad("is not a PromQL selector, that is a metric name with matchers in braces");
}
