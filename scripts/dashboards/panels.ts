// Grafana's model of a dashboard, as far as ours have it; places are given by the order and the widths of panels.

type Unit =
  | "short"
  | "percentunit"
  | "bytes"
  | "watt"
  | "celsius"
  | "hertz"
  | "s"
  | "Bps"
  | "dateTimeFromNow"
  | "dateTimeAsIso";
type Target = { readonly expr: string; readonly legend: string };
type Kind = "timeseries" | "stat" | "table" | "state-timeline" | "bargauge";

export type Panel = {
  readonly kind: Kind;
  readonly title: string;
  readonly about: string;
  readonly unit: Unit;
  readonly targets: readonly Target[];
  /** of 24 */
  readonly width: number;
  readonly height: number;
  /** values from which on it is a warning, and bad; the other way round where the first is larger */
  readonly limits?: readonly [warning: number, bad: number];
  readonly stacked?: boolean;
  /** units of a table's columns, by the legends of its targets */
  readonly columns?: Readonly<Record<string, Unit>>;
};
export type Row = { readonly title: string; readonly panels: readonly Panel[] };
export type Variable = {
  readonly name: string;
  readonly label: string;
  readonly query: string;
  readonly several: boolean;
};
export type Dashboard = {
  readonly uid: string;
  readonly title: string;
  readonly about: string;
  readonly from: string;
  readonly variables: readonly Variable[];
  readonly rows: readonly Row[];
};

const SOURCE = { type: "prometheus", uid: "${datasource}" };
const MARGIN = { warning: "orange", bad: "red", good: "green" };

/** The dashboard as Grafana reads it from a file. */
export function dashboardJson({ uid, title, about, from, variables, rows }: Dashboard): string {
  const panels: object[] = [];
  let y = 0;
  for (const row of rows) {
    panels.push({
      id: panels.length + 1,
      type: "row",
      title: row.title,
      collapsed: false,
      gridPos: { x: 0, y, w: 24, h: 1 },
      panels: [],
    });
    y += 1;
    let [x, height] = [0, 0];
    for (const panel of row.panels) {
      if (x + panel.width > 24) [x, y, height] = [0, y + height, 0];
      panels.push(panelJson(panel, panels.length + 1, x, y));
      [x, height] = [x + panel.width, Math.max(height, panel.height)];
    }
    y += height;
  }
  const dashboard = {
    uid,
    title,
    description: about,
    tags: ["gridmeter"],
    schemaVersion: 39,
    version: 1,
    editable: true,
    graphTooltip: 1,
    refresh: "30s",
    time: { from, to: "now" },
    timezone: "browser",
    templating: { list: [DATASOURCE, ...variables.map(variableJson)] },
    annotations: { list: [] },
    links: [
      {
        title: "gridmeter",
        type: "dashboards",
        tags: ["gridmeter"],
        asDropdown: true,
        includeVars: true,
        keepTime: true,
      },
    ],
    panels,
  };
  return `${JSON.stringify(dashboard, undefined, 2)}\n`;
}

const DATASOURCE = {
  name: "datasource",
  label: "Prometheus",
  type: "datasource",
  query: "prometheus",
  current: {},
  hide: 0,
};

function variableJson({ name, label, query, several }: Variable): object {
  const all = several
    ? { allValue: ".*", current: { selected: true, text: ["All"], value: ["$__all"] } }
    : { current: {} };
  return {
    name,
    label,
    type: "query",
    datasource: SOURCE,
    definition: query,
    query: { query, refId: name },
    refresh: 2,
    sort: 1,
    includeAll: several,
    multi: several,
    ...all,
  };
}

function panelJson(panel: Panel, id: number, x: number, y: number): object {
  const { kind, title, about, unit, targets, width, height, limits, columns } = panel;
  const isTable = kind === "table";
  return {
    id,
    type: kind,
    title,
    description: about,
    datasource: SOURCE,
    gridPos: { x, y, w: width, h: height },
    targets: targets.map(({ expr, legend }, index) => ({
      refId: String.fromCodePoint(65 + index),
      datasource: SOURCE,
      expr,
      legendFormat: legend,
      ...(isTable
        ? { format: "table", instant: true }
        : kind === "stat" || kind === "bargauge"
          ? { instant: true }
          : {}),
    })),
    fieldConfig: {
      defaults: { unit, custom: customOf(panel), ...(limits === undefined ? {} : { thresholds: thresholds(limits) }) },
      overrides: isTable ? overrides(targets, columns ?? {}, unit) : [],
    },
    options: optionsOf(kind),
    ...(isTable ? { transformations: joined(targets) } : {}),
  };
}

function customOf({ kind, stacked }: Panel): object {
  switch (kind) {
    case "timeseries":
      return {
        fillOpacity: stacked === true ? 40 : 5,
        lineWidth: 1,
        showPoints: "never",
        ...(stacked === true ? { stacking: { mode: "normal" } } : {}),
      };
    case "state-timeline":
      return { fillOpacity: 80, lineWidth: 0 };
    case "table":
    case "stat":
    case "bargauge":
      return {};
  }
}

function optionsOf(kind: Kind): object {
  switch (kind) {
    case "timeseries":
      return { legend: { displayMode: "list", placement: "bottom" }, tooltip: { mode: "multi", sort: "desc" } };
    case "state-timeline":
      return { showValue: "never", mergeValues: true, legend: { displayMode: "list", placement: "bottom" } };
    case "stat":
      return { reduceOptions: { calcs: ["lastNotNull"] }, colorMode: "value", graphMode: "none" };
    case "bargauge":
      return { reduceOptions: { calcs: ["lastNotNull"] }, orientation: "horizontal", displayMode: "basic" };
    case "table":
      return { showHeader: true };
  }
}

function thresholds([warning, bad]: readonly [number, number]): object {
  const rises = bad >= warning;
  const [low, high] = rises ? [warning, bad] : [bad, warning];
  const colors = rises ? [MARGIN.good, MARGIN.warning, MARGIN.bad] : [MARGIN.bad, MARGIN.warning, MARGIN.good];
  return { mode: "absolute", steps: [null, low, high].map((value, index) => ({ color: colors[index], value })) };
}

/** The values of several queries side by side, a row for what their labels have in common. */
function joined(targets: readonly Target[]): object[] {
  const names = Object.fromEntries(targets.map(({ legend }, index) => [valueName(targets, index), legend]));
  return [
    ...(targets.length > 1 ? [{ id: "merge", options: {} }] : []),
    { id: "organize", options: { excludeByName: { Time: true }, renameByName: names } },
  ];
}

const valueName = (targets: readonly Target[], index: number): string =>
  targets.length > 1 ? `Value #${String.fromCodePoint(65 + index)}` : "Value";

function overrides(targets: readonly Target[], columns: Readonly<Record<string, Unit>>, unit: Unit): object[] {
  return targets.map(({ legend }) => ({
    matcher: { id: "byName", options: legend },
    properties: [{ id: "unit", value: columns[legend] ?? unit }],
  }));
}
