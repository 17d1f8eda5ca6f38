import type { MessageFormat, Tenant } from "../../../../lib/accounting/model/tenant.ts";
import { at, cluster, HOUR, job, records, tenant, texts, unitIn, World } from "../../accounting/world.ts";
import { columns, fields, podTable } from "./text.ts";
import type { Example } from "./text.ts";

const MONTH = "2025-01";
const MEBI = 1024 * 1024;
const START = at("2025-01-10T08:00");
const PODS = [
  job(START, START + HOUR, { pod: "one", containers: [{ milliCores: 1000 }] }),
  job(START, START + HOUR, { pod: "half", containers: [{ milliCores: 500 }] }),
  job(START, START + 2 * HOUR, { pod: "four", containers: [{ milliCores: 4000 }] }),
];

/** What is published beside the sync record. */
async function messages(more: Partial<Tenant>, pods = PODS): Promise<readonly string[]> {
  const result = await new World(cluster(pods)).runOnly("2025-02-10", [tenant("grid", more)], { gap: MONTH });
  return texts(unitIn(result, MONTH)).filter((text) => !text.startsWith("APEL-sync"));
}

const models: Example = async () => {
  const used = columns(
    ["pod", "CPU seconds used"],
    PODS.map((pod) => [pod.pod, pod.containers.reduce((sum, one) => sum + (one.runs[0]?.cpuMs ?? 0) / 1000, 0)]),
  );
  const tables = await Promise.all(
    (["core-seconds", "wallclock"] as const).map(async (model) => {
      const result = await new World(cluster(PODS)).run("2025-02-10", [tenant("grid", { model })], { gap: MONTH });
      const rows = records(unitIn(result, MONTH)).flatMap((row) =>
        row.kind === "summary" ? [[row.processors, row.numberOfJobs, row.wallDuration, row.cpuDuration]] : [],
      );
      return `${model}:\n${columns(["Processors", "NumberOfJobs", "WallDuration", "CpuDuration"], rows)}`;
    }),
  );
  return [podTable(PODS), used, ...tables].join("\n\n");
};

const FORMATS: readonly MessageFormat[] = [
  "summary-0.2",
  "summary-0.4",
  "normalised-0.4",
  "individual-0.3",
  "individual-0.4",
];

const formats: Example = async () => {
  const level = { serviceLevel: { type: "hepscore23", value: 12.5 } } as const;
  const texts = await Promise.all(
    FORMATS.map(async (format) => {
      const [text = ""] = await messages({ format, ...level }, PODS.slice(0, 1));
      return `${format}:\n${fields(text, /^(APEL|Infrastructure|ServiceLevel|WallDuration|Normalised)/)}`;
    }),
  );
  return texts.join("\n\n");
};

const individual: Example = async () => {
  const pod = job(START, START + 2 * HOUR, {
    pod: "worker-0",
    containers: [{ milliCores: 1500, memory: 512 * MEBI }],
  });
  const more = { format: "individual-0.4", model: "wallclock" } as const;
  const [text = ""] = await messages(more, [pod]);
  // The uid is the simulator's and means nothing; that it is the pod's is what matters.
  if (!text.includes(`LocalJobId: ${pod.uid}\n`)) throw new Error("LocalJobId is not the uid");
  const shown = text.replace(pod.uid, "UID-OF-THE-POD").trim();
  return `${podTable([pod])}\n\n${shown}`;
};

export const RECORDS: Readonly<Record<string, Example>> = { models, formats, individual };
