import pino from "pino";
import { exitCode } from "../../lib/accounting/run.ts";
import { duration } from "../../lib/shared/config-values.ts";
import { GridmeterError } from "../../lib/shared/errors.ts";
import { setDelivery } from "../../lib/accounting/delivery/ams-or-spool.ts";
import { type SpoolPorts, spoolForever, spoolOnce } from "../../lib/accounting/delivery/spooler.ts";
import { checkedQueueUrl, openQueue, openSource } from "../../lib/accounting/ports.ts";
import { plainLog } from "../show/log.ts";
import { nowInSeconds } from "./options.ts";

export type SpoolOptions = {
  readonly source?: string | undefined;
  readonly queue?: string | undefined;
  readonly output?: string | undefined;
  readonly once?: boolean | undefined;
  readonly takeOver?: boolean | undefined;
  readonly sweepInterval: string;
  readonly visibility: string;
};

const usage = (text: string): GridmeterError => new GridmeterError("usage", `${text} Nothing was spooled.`);

/**
 * `gridmeter spool`: from the bucket into ssmsend's queue on this host, until SIGTERM or SIGINT, or one pass with --once.
 * Gives the exit code: 0 when it was told to stop; of one pass, that of the gravest fault, and 2 if anything was set aside.
 * @throws GridmeterError `delivery_elsewhere` once the bucket's messages are sent to AMS; `usage` ...
 */
export async function spool(options: SpoolOptions): Promise<number> {
  const { source, output, once = false } = options;
  if (source === undefined) throw usage("--source s3://BUCKET/PREFIX is needed: where the messages come from.");
  if (output === undefined) throw usage("--output dirq:DIR or dir:DIR is needed: ssmsend's queue on this host.");
  const sweepInterval = seconds("--sweep-interval", options.sweepInterval, 1, 86_400);
  const visibility = seconds("--visibility", options.visibility, 1, 12 * 3600);
  // An environment file of systemd may leave it empty.
  const queueUrl =
    options.queue === undefined || options.queue.trim() === "" ? undefined : checkedQueueUrl(options.queue);
  const log = pino(
    { name: "gridmeter-spool", base: { pid: process.pid }, hooks: plainLog },
    pino.destination({ fd: 2, sync: true }),
  );
  const queue = openQueue(output, (text) => log.warn({}, text));
  const store = await openSource("--source", source, process.env, foreignWarning(log));
  if (options.takeOver === true) await setDelivery(store, "spool");
  const ports: SpoolPorts = {
    store,
    queue,
    log,
    now: nowInSeconds,
    ...(await notificationQueueOf(queueUrl, visibility)),
  };
  const stop = stopSignal(log);
  log.info({ source, queue: queueUrl ?? null, output: queue.place, once }, "spooling");
  if (once) {
    const errors = await spoolOnce(ports, stop);
    const code = exitCode(errors);
    log.info({ faults: errors.length, exitCode: code }, "one pass is done");
    return code;
  }
  await spoolForever(ports, { sweepInterval, stop });
  log.info({}, "told to stop, nothing is in hand");
  return 0;
}

async function notificationQueueOf(
  url: string | undefined,
  visibility: number,
): Promise<Pick<SpoolPorts, "notifications">> {
  if (url === undefined) return {};
  const [{ createSqs }, { SqsNotifications }] = await Promise.all([
    import("../../lib/accounting/store/aws.ts"),
    import("../../lib/accounting/delivery/notifications.ts"),
  ]);
  return { notifications: new SqsNotifications(createSqs(process.env), url, visibility) };
}

function stopSignal(log: pino.Logger): AbortSignal {
  const controller = new AbortController();
  for (const signal of ["SIGTERM", "SIGINT"] as const) {
    process.once(signal, () => {
      log.info({ signal }, "finishing what is in hand");
      controller.abort();
    });
  }
  return controller.signal;
}

/** Each foreign object once: every sweep meets it again. */
function foreignWarning(log: pino.Logger): (key: string) => void {
  const warned = new Set<string>();
  return (key) => {
    if (warned.has(key)) return;
    warned.add(key);
    log.warn({ key }, "gridmeter did not put this object and leaves it alone");
  };
}

function seconds(option: string, text: string, least: number, most: number): number {
  const parsed = duration(least, most)(text.trim());
  if (parsed.ok) return parsed.value;
  throw usage(`${option} ${JSON.stringify(text)} ${parsed.problem}.`);
}
