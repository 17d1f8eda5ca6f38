// The page of `gridmeter report --html` as a reader meets it: opened in Chromium, wide and narrow, light and dark.
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Browser, Page } from "puppeteer-core";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { DEMO_TENANTS, demoLedger } from "../../lib/accounting/report/demo.ts";
import { type Report, makeReport } from "../../lib/accounting/report/figures.ts";
import { pageOf } from "../../lib/accounting/report/page/page.ts";
import { readReport, reportMonths } from "../../lib/accounting/report/read.ts";
import { shown, tableOf } from "../../lib/accounting/report/tables.ts";
import type { Tenant } from "../../lib/accounting/model/tenant.ts";
import type { ObjectStore } from "../../lib/accounting/store/store.ts";
import { type Scheme, openPage, startBrowser } from "../support/browser.ts";
import { World, at, cluster, ended, tenant } from "../unit/accounting/world.ts";

const NOW = "2026-10-20T09:00";
let browser: Browser;
let folder: string;
let report: Report;
let file: string;

async function reportOf(tenants: readonly Tenant[], store: ObjectStore, now: string): Promise<Report> {
  const damaged = (): never => {
    throw new Error("a stored object is damaged");
  };
  const months = reportMonths(at(now));
  return makeReport(await readReport(tenants, store, { now: at(now), months, keepAll: false, damaged }));
}

async function written(name: string, page: string): Promise<string> {
  const path = join(folder, name);
  await writeFile(path, page);
  return path;
}

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "gridmeter-report-"));
  browser = await startBrowser();
  report = await reportOf(DEMO_TENANTS, await demoLedger(at(NOW)), NOW);
  file = await written("report.html", pageOf(report, true));
}, 240_000);
afterAll(async () => {
  await browser.close();
  await rm(folder, { recursive: true, force: true });
});

type Bar = {
  readonly at: string;
  readonly total: number;
  readonly parts: readonly { readonly series: string; readonly value: number; readonly height: number }[];
};
type Chart = { readonly unit: string; readonly top: number; readonly height: number; readonly bars: readonly Bar[] };

// What runs in the page is text: the types of a browser would hold for the whole project.

/** The charts that a reader sees now, as they are drawn: heights are pixels on the screen. */
const charts = (page: Page): Promise<readonly Chart[]> =>
  page.evaluate(`(() => {
    const names = [...document.querySelectorAll("#series .legend li")].map((each) => each.textContent);
    return [...document.querySelectorAll("svg")]
      .filter((svg) => svg.getClientRects().length > 0)
      .map((svg) => ({
        unit: svg.dataset.unit,
        top: Number(svg.dataset.top),
        height: svg.getBoundingClientRect().height,
        bars: [...svg.querySelectorAll("g")].map((bar) => ({
          at: bar.dataset.at,
          total: Number(bar.dataset.total),
          parts: [...bar.querySelectorAll("rect[data-value]")].map((part) => ({
            series: names[Number(part.classList[0].slice(1))],
            value: Number(part.dataset.value),
            height: part.getBBox().height * (svg.getBoundingClientRect().height / 100),
          })),
        })),
      }));
  })()`) as Promise<readonly Chart[]>;

/** Texts that are smaller than 11 px or stand out too little from what is behind them (below 4.5 to 1). */
const poorTexts = (page: Page): Promise<readonly string[]> =>
  page.evaluate(`(() => {
    const channel = (value) => (value <= 0.03928 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4);
    const light = (color) =>
      [0.2126, 0.7152, 0.0722].reduce((sum, weight, index) => sum + weight * channel(color[index] / 255), 0);
    const parse = (color) => color.match(/[\\d.]+/g).map(Number);
    const behind = (element) => {
      const color = parse(getComputedStyle(element).backgroundColor);
      return color.length === 4 && color[3] === 0 ? behind(element.parentElement) : color;
    };
    const texts = [...document.querySelectorAll("main *")]
      .filter((each) => [...each.childNodes].some((node) => node.nodeType === 3 && node.textContent.trim() !== ""))
      .filter((each) => each.getClientRects().length > 0 && getComputedStyle(each).visibility === "visible");
    if (texts.length < 100) return ["only " + texts.length + " texts were looked at"];
    return texts.flatMap((each) => {
      const { color, fontSize } = getComputedStyle(each);
      const [a, b] = [light(parse(color)), light(behind(each))].sort((x, y) => y - x);
      const contrast = (a + 0.05) / (b + 0.05);
      return contrast >= 4.5 && parseFloat(fontSize) >= 11 ? [] : [each.textContent + " " + contrast + " " + fontSize];
    });
  })()`) as Promise<readonly string[]>;

const series = ({ tenant, vo }: { readonly tenant: string; readonly vo: string }): string =>
  tenant === vo ? tenant : `${tenant}: ${vo}`;

/** What the bars at each place must be, from the report's rows. */
function expected(measure: "jobs" | "coreHours", month?: string): ReadonlyMap<string, Record<string, number>> {
  const rows =
    month === undefined
      ? report.monthly.map((row) => ({ ...row, at: row.month }))
      : report.daily.filter(({ day }) => day.startsWith(month)).map((row) => ({ ...row, at: row.day }));
  const bars = new Map<string, Record<string, number>>();
  for (const row of rows) bars.set(row.at, { ...bars.get(row.at), [series(row)]: row[measure] });
  return bars;
}

function checkChart(chart: Chart, measure: "jobs" | "coreHours", month?: string): void {
  const bars = expected(measure, month);
  const drawn = new Map(
    chart.bars
      .filter(({ parts }) => parts.length > 0)
      .map(({ at: place, parts }) => [place, Object.fromEntries(parts.map((part) => [part.series, part.value]))]),
  );
  expect(drawn).toEqual(bars);
  for (const { total, parts } of chart.bars) {
    expect(total).toBeLessThanOrEqual(chart.top);
    for (const { value, height } of parts) expect(height).toBeCloseTo((value / chart.top) * chart.height, 0);
  }
}

const VIEWS: readonly (readonly [number, Scheme])[] = [
  [1280, "light"],
  [1280, "dark"],
  [400, "light"],
  [400, "dark"],
];

describe.each(VIEWS)("the page, %i px wide, %s", (width, scheme) => {
  test("has no script error, loads nothing, and is not wider than the screen", async () => {
    const { page, errors, requests } = await openPage(browser, file, width, scheme);
    expect(errors).toEqual([]);
    expect(requests).toEqual([]);
    const [content, screen] = (await page.evaluate(
      "[document.documentElement.scrollWidth, document.documentElement.clientWidth]",
    )) as [number, number];
    expect(content).toBe(screen);
    await page.close();
  });

  test("draws the ledger's values, to scale", async () => {
    const { page } = await openPage(browser, file, width, scheme);
    const [monthHours, monthJobs, dayHours, dayJobs, ...more] = await charts(page);
    expect(more).toEqual([]);
    checkChart(monthHours!, "coreHours");
    checkChart(monthJobs!, "jobs");
    checkChart(dayHours!, "coreHours", "2026-10");
    checkChart(dayJobs!, "jobs", "2026-10");
    await page.close();
  });

  test("can be read: each text is 11 px or larger and stands out from what is behind it", async () => {
    const { page } = await openPage(browser, file, width, scheme);
    expect(await poorTexts(page)).toEqual([]);
    await page.close();
  });
});

test("light and dark are two schemes", async () => {
  const colors = async (scheme: Scheme): Promise<unknown> => {
    const { page } = await openPage(browser, file, 1280, scheme);
    const color = await page.evaluate("getComputedStyle(document.body).backgroundColor");
    await page.close();
    return color;
  };
  expect(await colors("light")).not.toBe(await colors("dark"));
});

test("the month that is chosen is the one whose days are drawn", async () => {
  const { page, errors } = await openPage(browser, file, 1280, "light");
  await page.select("#month", "2026-08");
  const [, , dayHours, dayJobs, ...more] = await charts(page);
  expect(more).toEqual([]);
  checkChart(dayHours!, "coreHours", "2026-08");
  checkChart(dayJobs!, "jobs", "2026-08");
  expect(errors).toEqual([]);
  await page.close();
});

test("under the pointer stand the figures of the table", async () => {
  const { page, errors } = await openPage(browser, file, 1280, "light");
  await page.hover('svg g[data-at="2026-09"]');
  const tip = await page.$eval(".tip", (each): string[] =>
    [...each.querySelectorAll("div")].map((line) => String(line.textContent)),
  );
  const month = report.byMonth.find(({ month: name }) => name === "2026-09");
  expect(tip[0]).toBe(`2026-09${shown(month!.coreHours, "hours")} core hours`);
  const parts = report.monthly.filter(({ month: name }) => name === "2026-09");
  expect(tip.slice(1).toSorted()).toEqual(parts.map((row) => series(row) + shown(row.coreHours, "hours")).toSorted());
  expect(errors).toEqual([]);
  await page.close();
});

test("its tables have the report's figures", async () => {
  const { page } = await openPage(browser, file, 1280, "light");
  const rows = await page.$$eval("#byMonth tbody tr", (each) =>
    each.map((row) => [...row.querySelectorAll("td")].map((cell) => cell.textContent)),
  );
  const table = tableOf(report, "byMonth");
  const want = table.rows.map((row) =>
    row
      .map((value, index) => shown(value, table.columns[index]!.kind))
      .filter((_text, index) => table.columns[index]!.name !== "hs06Hours"),
  );
  expect(rows).toEqual(want.toReversed());
  expect(rows.length).toBe(report.months.length);
  await page.close();
});

test("without its script the page is whole: every month's days are drawn", async () => {
  const page = await browser.newPage();
  await page.setJavaScriptEnabled(false);
  await page.goto(`file://${file}`);
  await page.setJavaScriptEnabled(true);
  const drawn = await charts(page);
  expect(drawn).toHaveLength(2 + 2 * report.months.length);
  await page.close();
});

test("names that hold markup are shown as they are and run nothing", async () => {
  const evil = `<img src=x onerror=alert(1)>"'&</script><script>document.title="owned"</script>`;
  const many = Array.from({ length: 12 }, (_, index) =>
    tenant(`t${index}`, { vo: index === 0 ? evil : `vo-${index}` }),
  );
  const world = new World(
    cluster(
      many.map((one, index) => ended(`2025-02-0${1 + (index % 8)}T12:00`, { in: one.name })),
      { emptyNamespaces: many.map(({ name }) => name) },
    ),
  );
  await world.run("2025-03-20", many, { gap: "2025-02" });
  const evilReport = await reportOf(many, world.store, "2025-03-20");
  const path = await written("evil.html", pageOf(evilReport, false));
  const { page, errors, requests } = await openPage(browser, path, 1280, "light");
  expect([errors, requests]).toEqual([[], []]);
  expect(await page.title()).toBe("Accounting report of UNI-TEST");
  expect(await page.$$eval("#vos td:first-child", (cells) => cells.map((cell) => cell.textContent))).toContain(evil);
  // More than the colours there are: the small ones are one series, and nothing is lost.
  const [months] = await charts(page);
  const bar = months!.bars.find(({ at: place }) => place === "2025-02")!;
  expect(bar.parts.map((part) => part.series)).toContain("others");
  expect(bar.parts.reduce((sum, part) => sum + part.value, 0)).toBe(12);
  await page.close();
});
