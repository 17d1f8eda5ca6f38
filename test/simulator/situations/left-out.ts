import { ALL_DAYS, at, batch, days, jobsOn, pod, TWO_MONTHS } from "./batch.ts";
import { allowed, FEB, JAN, plain, publishes, refuses } from "./situation.ts";
import type { Situation } from "./situation.ts";

/** No container of these requests CPU. */
const noRequest = { containers: [{ memory: 64 * 2 ** 20, measured: false }] };
const FEBRUARY = days(32, 59);

/** A second after a scrape, so that the pod is gone before the next one. */
const BETWEEN = at(12, 10) + 8;
const LEFT_OUT = [
  pod(at(10, 8), null, { evicted: at(10, 10), deleted: at(10, 12) }),
  pod(at(12, 8), BETWEEN, { deleted: BETWEEN + 60 }),
  pod(at(14, 8), null, {
    containers: [
      { milliCores: 2000, measured: false },
      { milliCores: 500, measured: false, to: at(14, 12) },
    ],
  }),
  pod(at(16, 8), at(16, 10), noRequest),
];
const reasons = { [JAN]: { no_end: 2, not_finished: 1, no_cpu_request: 1 } };

/** Jobs without a request, beside those of an ordinary January. */
const unrequested = (which: readonly number[]) =>
  jobsOn(which, { plan: (index) => ({ ...noRequest, pod: `free-${index}` }) });

export const LEFT_OUT_SITUATIONS: readonly Situation[] = [
  {
    name: "left out by reason, in the month that it belongs to",
    after: "rule: Left out, counted by reason, never silently",
    cluster: batch([...jobsOn(ALL_DAYS), ...LEFT_OUT], TWO_MONTHS),
    whole: true,
    months: [JAN, "2025-03"],
    runs: [
      {
        right: {
          exit: 0,
          published: { [JAN]: plain(31), [FEB]: plain(0) },
          leftOut: { ...reasons, [FEB]: { no_end: 0, not_finished: 0, no_cpu_request: 0 } },
        },
      },
      {
        name: "again, from the ledger",
        right: { exit: 0, published: { [JAN]: plain(31), [FEB]: plain(0) }, leftOut: reasons, askedDays: 0 },
      },
    ],
  },
  {
    name: "no job requests CPU, pods of kube-system do",
    after: "rule: a month in which every finished pod was left out is refused",
    cluster: batch(unrequested(ALL_DAYS)),
    whole: true,
    runs: [
      { right: refuses(["all_left_out"], { says: [/CPU request|no_cpu_request/] }) },
      allowed(plain(0), { leftOut: { [JAN]: { no_cpu_request: 31 } } }),
    ],
  },
  {
    name: "no job requests CPU, and DEFAULT_CORES says how many",
    after: "rule: no_cpu_request",
    cluster: batch(unrequested(ALL_DAYS)),
    whole: false,
    env: { DEFAULT_CORES: "2" },
    runs: [{ right: publishes(plain(31)) }],
  },
  {
    name: "some jobs request no CPU",
    after: "rule: clusters without requests are ordinary",
    cluster: batch([...jobsOn(ALL_DAYS), ...unrequested(ALL_DAYS)]),
    whole: true,
    runs: [{ right: publishes(plain(31), { leftOut: { [JAN]: { no_cpu_request: 31 } } }) }],
  },
  {
    name: "only jobs without a CPU request are left, after a month that counted jobs beside such",
    after: "rule: unless the month before counted jobs beside such pods (then a warning)",
    cluster: batch([...jobsOn(ALL_DAYS), ...unrequested([...ALL_DAYS, ...FEBRUARY])], TWO_MONTHS),
    whole: true,
    months: [JAN, "2025-03"],
    runs: [
      {
        right: {
          exit: 0,
          published: { [JAN]: plain(31), [FEB]: plain(0) },
          leftOut: { [JAN]: { no_cpu_request: 31 }, [FEB]: { no_cpu_request: 28 } },
          says: [/2025-02/],
        },
      },
    ],
  },
  {
    name: "two jobs without a CPU request in a week, then none",
    after: "rule: all that was left out of a month",
    cluster: batch(unrequested([3, 4])),
    whole: true,
    runs: [{ right: refuses(["all_left_out"]) }, allowed(plain(0), { leftOut: { [JAN]: { no_cpu_request: 2 } } })],
  },
  {
    name: "a month falls below a tenth of the one before",
    after: "rule: a month that falls to less than a tenth is published with a warning",
    cluster: batch([...jobsOn(ALL_DAYS, { perDay: 2 }), ...jobsOn([40, 50])], TWO_MONTHS),
    whole: true,
    months: [JAN, "2025-03"],
    runs: [{ right: { exit: 0, published: { [JAN]: plain(62), [FEB]: plain(2) }, says: [/2025-02/] } }],
  },
  {
    name: "a month falls to a half of the one before",
    after: "rule: ordinary, no warning",
    cluster: batch([...jobsOn(ALL_DAYS, { perDay: 2 }), ...jobsOn(FEBRUARY)], TWO_MONTHS),
    whole: true,
    months: [JAN, "2025-03"],
    runs: [{ right: { exit: 0, published: { [JAN]: plain(62), [FEB]: plain(28) }, silent: [/2025-0[12]/] } }],
  },
];
