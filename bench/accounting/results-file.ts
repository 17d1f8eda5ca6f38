const TITLE = "# What gridmeter costs";
const ABOUT =
  "Written by `npm run bench`; run it again instead of editing this file. Each section tells when it was measured.";

/** The text of bench/results.md with one section (it begins with `## `) put in, in place of the one with its heading. */
export function withSection(held: string, section: string, now: Date): string {
  const [heading = "", ...rest] = section.trim().split("\n");
  const dated = [heading, "", `Measured on ${now.toISOString().slice(0, 10)}.`, ...rest].join("\n");
  const others = held
    .split(/^(?=## )/m)
    .slice(1)
    .filter((other) => other.split("\n")[0] !== heading)
    .map((other) => other.trim());
  return `${[TITLE, ABOUT, ...[...others, dated].sort()].join("\n\n")}\n`;
}
