import { chmodSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { basename, dirname, join } from "node:path";
import {
  type FileGroup,
  type UnitFigures,
  type Unsent,
  ACCOUNTING_JOB,
  PUSH_DEADLINE_MS,
  countOf,
  isOwnFile,
  mergedFile,
  pushedText,
  unitGrouping,
  unitMetrics,
  unsentMetrics,
} from "../../lib/accounting/metrics.ts";
import { type Request, periods } from "../../lib/accounting/model/periods.ts";
import type { OpenOutbox } from "../../lib/accounting/ports.ts";
import type { RunResult } from "../../lib/accounting/run.ts";
import type { LoadedSettings } from "../../lib/accounting/settings/load.ts";
import { summarise } from "../../lib/accounting/summary.ts";
import { errorText } from "../../lib/shared/errors.ts";
import type { Labels } from "../../lib/shared/exposition.ts";
import { isErrno, readTextFile } from "../../lib/shared/fs.ts";
import { push } from "../../lib/shared/pushgateway.ts";
import { isInTheClear } from "../../lib/shared/text.ts";
import { nowInSeconds, warn } from "./options.ts";

/** A file of metrics of ours is far smaller, bytes. */
const LARGEST_FILE = 16_000_000;

/**
 * Publishes the figures of one run on the Pushgateway and in the file of the settings. What goes wrong there is warned of and
 * fails no run: figures matter less than work.
 */
export class RunMetrics {
  readonly #settings: LoadedSettings;
  readonly #now: number;
  readonly #started = performance.now();

  /** @param now epoch seconds, when the run began */
  constructor(settings: LoadedSettings, now: number) {
    this.#settings = settings;
    this.#now = now;
  }

  /** The run broke off before a unit was decided. */
  async publishFailure(request: Request): Promise<void> {
    const units = this.#settings.tenants.map(({ tenant: { site, submitHost } }) => ({ site, submitHost }));
    const time = this.#time();
    const figures = periods(request, this.#now).flatMap(({ month }) =>
      units.map((unit): UnitFigures => ({ unit: { ...unit, month }, outcome: "failed", messages: 0, ...time })),
    );
    await this.#publish(figures, undefined);
  }

  /** What became of the run. @param outbox where it sent to: what waits there is published too */
  async publishResult(result: RunResult, outbox: OpenOutbox): Promise<void> {
    const { file, gateway } = this.#settings.metrics;
    if (file === undefined && gateway === undefined) return;
    const summary = summarise(result);
    const time = this.#time();
    const figures = result.months.flatMap(({ units }) =>
      units.map(({ unit, status, keys = [] }): UnitFigures => {
        const counted = countOf(summary, unit);
        const outcome = status === "refused" || status === "failed" ? status : "done";
        return { unit, outcome, messages: keys.length, ...time, ...(counted === undefined ? {} : { counted }) };
      }),
    );
    await this.#publish(figures, await unsentIn(outbox));
  }

  #time(): Pick<UnitFigures, "duration" | "at"> {
    return { duration: Math.round(performance.now() - this.#started) / 1000, at: nowInSeconds() };
  }

  async #publish(figures: readonly UnitFigures[], unsent: Unsent | undefined): Promise<void> {
    const groups = [
      ...figures.map((each) => ({
        labels: unitGrouping(each.unit, this.#now),
        metrics: unitMetrics(each),
        // Whatever is not a success leaves the time of the last one, and its figures, where they are.
        whole: each.outcome === "done",
      })),
      ...(unsent === undefined
        ? []
        : [{ labels: { job: ACCOUNTING_JOB, queue: unsent.queue }, metrics: unsentMetrics(unsent), whole: true }]),
    ];
    await this.#push(groups);
    this.#write(groups);
  }

  async #push(groups: readonly FileGroup[]): Promise<void> {
    const { gateway } = this.#settings.metrics;
    if (gateway === undefined) return;
    const { url, authHeader, caFile } = gateway;
    if (authHeader !== undefined && isInTheClear(new URL(url)))
      warn("PUSHGATEWAY_URL is not https, so the header for it can be read on the way. Write https://.");
    const options = {
      ...(authHeader === undefined ? {} : { authHeader }),
      ...(caFile === undefined ? {} : { caFile }),
      deadlineMs: PUSH_DEADLINE_MS,
    };
    try {
      for (const { labels, metrics, whole } of groups)
        await push(url, labels, await pushedText(metrics), { ...options, method: whole ? "PUT" : "POST" });
    } catch (error) {
      warn(`the run's own metrics were not pushed: ${errorText(error)}`);
    }
  }

  #write(groups: readonly FileGroup[]): void {
    const { file } = this.#settings.metrics;
    if (file === undefined) return;
    const units = this.#settings.tenants.flatMap(({ tenant: { site, submitHost } }) =>
      ["current", "previous", "older"].map((period): Labels => ({ site, submit_host: submitHost, period })),
    );
    try {
      const before = textOf(file);
      if (!isOwnFile(before))
        throw new Error("it holds something else than gridmeter's metrics and is left as it is. Name another file.");
      replaceFile(file, mergedFile(before, groups.map(withoutJob), units));
    } catch (error) {
      warn(`the run's own metrics were not written into METRICS_FILE ${JSON.stringify(file)}: ${errorText(error)}`);
    }
  }
}

/** In a file the job is the collector's. */
function withoutJob({ labels, ...group }: FileGroup): FileGroup {
  return { ...group, labels: Object.fromEntries(Object.entries(labels).filter(([name]) => name !== "job")) };
}

function textOf(file: string): string {
  try {
    return readTextFile(file, LARGEST_FILE);
  } catch (error) {
    if (isErrno(error, "ENOENT")) return "";
    throw error;
  }
}

/** The collector never sees half of it: it reads names that end in `.prom` only. */
function replaceFile(file: string, text: string): void {
  const unfinished = join(dirname(file), `.${basename(file)}.${process.pid}`);
  try {
    writeFileSync(unfinished, text);
    // node_exporter is another user.
    chmodSync(unfinished, 0o644);
    renameSync(unfinished, file);
  } finally {
    rmSync(unfinished, { force: true });
  }
}

/** What waits in the queue on this host; undefined for a bucket, and while another gridmeter is at the queue. */
async function unsentIn(outbox: OpenOutbox): Promise<Unsent | undefined> {
  if (outbox.kind === "s3") return undefined;
  try {
    const messages = await outbox.queue.exclusively((open) => open.list());
    if (messages === "taken") return undefined;
    const now = nowInSeconds();
    return { queue: outbox.place, ages: messages.map(({ since }) => now - since) };
  } catch (error) {
    warn(`how old the messages in ${outbox.place} are was not found out: ${errorText(error)}`);
    return undefined;
  }
}
