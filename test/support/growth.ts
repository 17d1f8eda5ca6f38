/** Those of which each text is as long as it may be. */
export const KINDS = [":", " ", "1", "-", '"', "[", "\n", ': 1-"[\n'] as const;

/** Texts that slow patterns down, each to be repeated. */
export const HOSTILE = [
  ":", " ", "\t", "1", "-", '"', "'", "[", "]", "{", "}", "(", "<", ">", "/", "\\", "\n", ",", "a", "=", "\u2028", "\r", "_", "|",
  "a:", "a ", "a\n", "1 ", "1:", "1\n", "- ", "\\n", "<a>", "</a", "[[", "{a", "->", "=>", "<=", " UDP ", ": ", " \n", "\t\n",
  '"a":', "D 1 1 x\n", "<gpu ", "\n\t<gpu id=\"a\">\n", "<process_name>", "</process_name>", "\n\t\t<processes>\n", "</gpu>", "<!--", "<![CDATA[",
  "\u001b[", "collected metric ", "1.", "# HELP a ", "a{a=", "docker-", "/a", "..", "/..", "error grabbing logs", "no such ",
] as const; // prettier-ignore

/** Milliseconds that are too few to compare, and to hold anything up. The collector of garbage takes its time when it likes. */
const UNCERTAIN = 250;
const TRIES = 6;

/** The time of this thread alone: how busy the machine is must not count. */
const timeOf = (work: () => unknown): number => {
  const start = process.threadCpuUsage();
  try {
    work();
  } catch {
    // a text that is refused is one that was looked at
  }
  const { user, system } = process.threadCpuUsage(start);
  return (user + system) / 1000;
};

/** A text of so many characters, that is one text again and again. */
export const repeated = (unit: string, length: number): string =>
  unit.repeat(Math.ceil(length / unit.length)).slice(0, length);

/**
 * How much longer a work took on twice the text, at worst: from a small text on, so that what grows with the square shows before it
 * takes minutes, up to `cap` characters. What takes next to no time counts as 1.
 */
export const growth = (work: (text: string) => unknown, unit: string, cap: number): number => {
  let worst = 1;
  let before = 0;
  for (let length = Math.min(cap, 32_768); length <= cap; length = length < cap ? Math.min(cap, length * 2) : cap + 1) {
    const text = repeated(unit, length);
    let factor = Number.POSITIVE_INFINITY;
    let least = Number.POSITIVE_INFINITY;
    for (let attempt = 0; attempt < TRIES && factor > 3; attempt++) {
      least = Math.min(
        least,
        timeOf(() => work(text)),
      );
      factor = least < UNCERTAIN ? 1 : least / Math.max(before, UNCERTAIN / 2.5);
    }
    worst = Math.max(worst, factor);
    if (worst > 3) break;
    before = least;
  }
  return worst;
};

/** The same of short texts. */
const FLOOR = 10;

/** How many times as long a reader takes for twice the text that is made for it. Where that takes next to no time: 1. */
export function growthOf(read: (text: string) => unknown, textOf: (length: number) => string, length: number): number {
  const least = (text: string): number => Math.min(...Array.from({ length: 3 }, () => timeOf(() => read(text))));
  let best = Infinity;
  for (let tries = 0; tries < TRIES && best > 3; tries += 1) {
    const twice = least(textOf(2 * length));
    if (twice < FLOOR) return 1;
    best = Math.min(best, twice / Math.max(FLOOR / 4, least(textOf(length))));
  }
  return best;
}
