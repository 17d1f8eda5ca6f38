import type { Metric } from "../../lib/shared/exposition.ts";

const escape = (text: string): string => text.replaceAll("\\", "\\\\").replaceAll('"', '\\"').replaceAll("\n", "\\n");

/** The text of metrics as a scrape or a push has it. */
export const exposition = (metrics: readonly Metric[]): string =>
  metrics
    .flatMap(({ name, help, type, samples }) => [
      `# HELP ${name} ${help.replaceAll("\\", "\\\\").replaceAll("\n", "\\n")}`,
      `# TYPE ${name} ${type}`,
      ...samples.map(({ labels, value }) => {
        const pairs = Object.entries(labels).map(([key, text]) => `${key}="${escape(text)}"`);
        return `${name}{${pairs.join(",")}} ${value}`;
      }),
    ])
    .map((line) => `${line}\n`)
    .join("");
