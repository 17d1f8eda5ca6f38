import { htmlText } from "../../../shared/text.ts";

/** Series that have a colour of their own; those with less are shown together. */
const MOST_SERIES = 7;
const OTHERS = "others";

/** One value of one series at one place of the axis. */
export type Point = { readonly at: string; readonly series: string; readonly value: number };

export type Axis = {
  /** the places in order, those without a value too */
  readonly places: readonly string[];
  /** the total at a place: a sum of rounded parts may be another */
  readonly total: (place: string) => number;
  /** the text under a place, and below that where it is not empty */
  readonly label: (place: string, index: number) => readonly [text: string, below: string];
};

/** The names of the series, the one with the most core hours first; the index is the colour. */
export type Legend = readonly string[];

/** Chooses the series that are shown by name. */
export function legendOf(points: readonly Point[]): Legend {
  const sums = new Map<string, number>();
  for (const { series, value } of points) sums.set(series, (sums.get(series) ?? 0) + value);
  const names = [...sums].sort(([, a], [, b]) => b - a).map(([name]) => name);
  return names.length <= MOST_SERIES ? names : [...names.slice(0, MOST_SERIES - 1), OTHERS];
}

export function legendList(legend: Legend): string {
  if (legend.length < 2) return "";
  const items = legend.map((name, index) => `<li><i class="s${index}"></i>${htmlText(name)}</li>`);
  return `<ul class="legend">${items.join("")}</ul>`;
}

/**
 * Stacked bars over an axis, as SVG that takes the width it is given; the texts beside it are HTML, so that they keep their size.
 * Each part of a bar has its value in `data-value`, and its height is that share of the axis, whose end is in `data-top`.
 */
export function stackedBars(
  title: string,
  unit: "core hours" | "jobs",
  points: readonly Point[],
  legend: Legend,
  axis: Axis,
): string {
  const stacks = axis.places.map((place) =>
    partsOf(
      points.filter(({ at }) => at === place),
      legend,
    ),
  );
  const totals = axis.places.map(axis.total);
  const top = endOfAxis(Math.max(0, ...totals));
  const bars = stacks.map((parts, index) => bar([axis.places[index] ?? "", totals[index] ?? 0], parts, index, top));
  const lines = [0, 25, 50, 75].map((y) => `<path class="grid" d="M0 ${y}H${axis.places.length}"/>`);
  const ticks = [top, top / 2, 0].map((value) => `<span>${value.toLocaleString("en")}</span>`);
  return (
    `<figure class="chart"><figcaption>${htmlText(title)}</figcaption><div class="plot"><div class="y" aria-hidden="true">${ticks.join("")}</div>` +
    `<svg viewBox="0 0 ${axis.places.length} 100" preserveAspectRatio="none" role="img" aria-label="${htmlText(title)}" data-unit="${unit}" data-top="${top}">` +
    `${lines.join("")}${bars.join("")}</svg><div class="x" aria-hidden="true">${labels(axis)}</div></div></figure>`
  );
}

type Part = { readonly series: number; readonly value: number };

/** The values of a place by series of the legend, those beyond it together. */
function partsOf(points: readonly Point[], legend: Legend): readonly Part[] {
  const sums = new Map<number, number>();
  for (const { series, value } of points) {
    const found = legend.indexOf(series);
    const index = found < 0 ? legend.length - 1 : found;
    sums.set(index, (sums.get(index) ?? 0) + value);
  }
  return [...sums]
    .filter(([, value]) => value > 0)
    .sort(([a], [b]) => a - b)
    .map(([series, value]) => ({ series, value: Math.round(value * 10) / 10 }));
}

function bar([place, total]: readonly [string, number], parts: readonly Part[], index: number, top: number): string {
  let y = 100;
  const rects = parts.map(({ series, value }) => {
    const height = Math.min(y, (100 * value) / top);
    y -= height;
    return `<rect class="s${series}" x="${index + 0.14}" y="${round(y)}" width=".72" height="${round(height)}" data-value="${value}"/>`;
  });
  // What the pointer meets is the whole column, however low its bar is.
  return `<g data-at="${htmlText(place)}" data-total="${total}"><rect class="hit" x="${index}" y="0" width="1" height="100"/>${rects.join("")}</g>`;
}

const round = (value: number): number => Math.round(value * 1000) / 1000;

function labels({ places, label }: Axis): string {
  return places
    .map((place, index) => label(place, index))
    .map(([text, below]) => `<span>${htmlText(text)}${below === "" ? "" : `<b>${htmlText(below)}</b>`}</span>`)
    .join("");
}

/** The end of an axis that begins at 0: the value, rounded up to 1, 2, 3, 4, 5, 6 or 8 of its power of ten; its half is as short. */
function endOfAxis(value: number): number {
  if (value <= 0) return 1;
  const power = 10 ** Math.floor(Math.log10(value));
  const steps = [1, 2, 3, 4, 5, 6, 8, 10];
  const step = steps.find((each) => each * power >= value * (1 - Number.EPSILON)) ?? 10;
  return Number((step * power).toPrecision(6));
}
