/** Whether labels satisfy one PromQL matcher, e.g. `cluster="prod"` or `pod!~"test-.*"`. */
export function matches(labels: Readonly<Record<string, string>>, matcher: string): boolean {
  const parsed = /^\s*(?<name>\w+)\s*(?<operator>=~|!~|!=|=)\s*(?<text>"(?:[^"\\]|\\.)*")\s*$/.exec(matcher)?.groups;
  if (parsed === undefined) throw new Error(`Not a PromQL matcher: ${matcher}`);
  const value = labels[parsed["name"] ?? ""] ?? "";
  const text = (parsed["text"] ?? "").slice(1, -1).replaceAll(/\\(.)/g, "$1");
  switch (parsed["operator"]) {
    case "=":
      return value === text;
    case "!=":
      return value !== text;
    case "=~":
      return new RegExp(`^(?:${text})$`).test(value);
    default:
      return !new RegExp(`^(?:${text})$`).test(value);
  }
}
