import type { Cluster } from "../cluster.ts";
import type { Series } from "../series.ts";

/** What must be published of a month. Core hours are those of the summary records together. */
export type Published = { readonly jobs: number; readonly coreHours: number };

/** What must come of one `gridmeter account`. */
export type Right = {
  readonly exit: 0 | 2 | 3 | 4;
  /** the error codes of which each month's unit that is not published has one */
  readonly codes?: readonly string[];
  /** by month `yyyy-mm`, as what lies in the queue says; `nothing`: no message of that month */
  readonly published: Readonly<Record<string, Published | "nothing">>;
  /** jobs by VO, all months together */
  readonly vos?: Readonly<Record<string, number>>;
  /** by month and reason, as `--json` has them; reasons that are not named are not compared */
  readonly leftOut?: Readonly<Record<string, Readonly<Record<string, number>>>>;
  /** each is found in what the run says on stderr: its warnings and errors */
  readonly says?: readonly RegExp[];
  /** each is found in exactly one line of that */
  readonly saysOnce?: readonly RegExp[];
  /** none is found in it */
  readonly silent?: readonly RegExp[];
  /** days that the run asks Prometheus for; the others come from the ledger */
  readonly askedDays?: number;
};

/** One `gridmeter account`. The runs of a situation share its ledger, unless one begins without. */
export type Run = {
  /** what is done, where there is more than one run */
  readonly name?: string;
  readonly args?: readonly string[];
  readonly env?: Readonly<Record<string, string>>;
  /** as if none had run before */
  readonly fresh?: boolean;
  readonly right: Right;
  /** where more than one end is right, the others */
  readonly or?: readonly Right[];
};

/** What people met, or what an ordinary site looks like: what Prometheus holds then, and what must come of it. */
export type Situation = {
  readonly name: string;
  /** the public report, or the rule of the accounting that it serves */
  readonly after: string;
  /** what really happened */
  readonly cluster: Cluster;
  /** nothing of it is lost on the way: the figures of the first run are those of the cluster's truth */
  readonly whole: boolean;
  /** what Prometheus holds, made of all that the cluster shows; absent: all of it */
  readonly held?: (shown: readonly Series[]) => readonly Series[];
  /** a second Prometheus with other data behind the same address: it is asked what matches, or each second question */
  readonly replica?: {
    readonly held: (shown: readonly Series[]) => readonly Series[];
    readonly asked: RegExp | "in turn";
  };
  /** settings besides the usual ones */
  readonly env?: Readonly<Record<string, string>>;
  /** the tenants file; `@LOCALHOST@` is the address of Prometheus by another name, `@CLUSTER@` the label of the situation */
  readonly tenants?: readonly Readonly<Record<string, string>>[];
  /** gap mode from the first month up to the second; absent: January 2025 */
  readonly months?: readonly [first: string, after: string];
  readonly runs: readonly [Run, ...Run[]];
};

/** A month's figures of jobs that ran for two hours on two cores, as `batch.ts` makes them. */
export const plain = (jobs: number): Published => ({ jobs, coreHours: jobs * 4 });

export const JAN = "2025-01";
export const FEB = "2025-02";

/** January is published so, with exit code 0. */
export const publishes = (january: Published, more: Partial<Right> = {}): Right => ({
  exit: 0,
  published: { [JAN]: january },
  ...more,
});

/** January is refused with one of the codes. */
export const refuses = (codes: readonly string[], more: Partial<Right> = {}): Right => ({
  exit: 3,
  codes,
  published: { [JAN]: "nothing" },
  ...more,
});

/** What is refused is published without what is missing, if the site says so. */
export const allowed = (january: Published, more: Partial<Right> = {}): Run => ({
  name: "--allow-incomplete",
  args: ["--allow-incomplete"],
  right: publishes(january, more),
});
