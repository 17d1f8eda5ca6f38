import { clip } from "../series.ts";
import type { Segment, Series } from "../series.ts";
import type { Stretch } from "../schedule.ts";

type Which = (series: Series) => boolean;
type Labels = Readonly<Record<string, string>>;

const ALWAYS: Stretch = { from: -Infinity, to: Infinity };

/** The series of one metric. */
export const metric =
  (name: string): Which =>
  (series) =>
    series.name === name;

/** All that kube-state-metrics writes about pods and namespaces. */
export const aboutPods: Which = ({ name }) => name.startsWith("kube_") && !name.startsWith("kube_state_metrics_");

/** Changes the segments of some series and leaves the others as they are. */
function cutting(series: readonly Series[], which: Which, segments: (of: Series) => Segment[]): Series[] {
  return series.map((one) => (which(one) ? { ...one, segments: segments(one) } : one)).filter(hasSegments);
}

const hasSegments = ({ segments }: Series): boolean => segments.length > 0;

/** Relabelling that drops series: all along, or in a stretch. */
export function dropped(series: readonly Series[], which: Which, stretch: Partial<Stretch> = {}): Series[] {
  const { from, to } = { ...ALWAYS, ...stretch };
  return cutting(series, which, ({ segments }) => [
    ...clip(segments, { from: -Infinity, to: from }),
    ...clip(segments, { from: to, to: Infinity }),
  ]);
}

/** What was scraped in a stretch only. */
export function during(series: readonly Series[], stretch: Partial<Stretch>): Series[] {
  return cutting(
    series,
    () => true,
    ({ segments }) => clip(segments, { ...ALWAYS, ...stretch }),
  );
}

/** kube-state-metrics writes the phase that holds and no zeros beside it. */
export function withoutZeroRows(series: readonly Series[]): Series[] {
  return cutting(series, metric("kube_pod_status_phase"), ({ segments }) =>
    segments.filter(({ value }) => value !== 0),
  );
}

/** Relabelling of the labels of kube-state-metrics' series about pods, in a stretch or all along. */
export function relabelled(
  series: readonly Series[],
  change: (labels: Labels, series: Series) => Labels,
  stretch: Partial<Stretch> = {},
): Series[] {
  const changed = during(series.filter(aboutPods), stretch).map((one) => ({ ...one, labels: change(one.labels, one) }));
  return [...dropped(series, aboutPods, stretch), ...changed];
}

/** The labels under other names: `exported_pod` as `orig_pod`, and so on. */
export function renamed(from: RegExp, to: string): (labels: Labels) => Labels {
  return (labels) => Object.fromEntries(Object.entries(labels).map(([key, value]) => [key.replace(from, to), value]));
}
