import { describe, expect, test } from "vitest";
import { refuseOverlap } from "../../../lib/accounting/counting/tenant-overlap.ts";
import type { Tenant } from "../../../lib/accounting/model/tenant.ts";
import { GridmeterError } from "../../../lib/shared/errors.ts";
import { STACK } from "../../simulator/index.ts";
import { stubMonitoring } from "../../support/stub-monitoring.ts";
import { at, cluster, DAY, ended, FEBRUARY, NOW, outcomes, tenant, World } from "./world.ts";

const JOBS = Array.from({ length: 5 }, (_, index) => ended(`2025-02-0${index + 1}T12:00`, { pod: `job-${index}` }));
/** A tenant of the namespace `grid`, with matchers. */
const of = (name: string, ...matchers: string[]): Tenant => tenant(name, { pods: { namespace: "grid", matchers } });

/** Two clusters whose pods are told apart by the label `cluster`; each has the jobs of one of them. */
function twoClusters(): World {
  const [a, b] = [JOBS.slice(0, 2), JOBS.slice(2)];
  const both = [
    { ...STACK, labels: { cluster: "a" }, holds: (job: (typeof JOBS)[number]) => !b.includes(job) },
    { ...STACK, labels: { cluster: "b" }, holds: (job: (typeof JOBS)[number]) => !a.includes(job), offset: 31 },
  ];
  return new World(cluster(JOBS, { stacks: both }));
}

async function refusal(world: World, tenants: readonly Tenant[]): Promise<GridmeterError> {
  const error = await world.run(NOW, tenants, FEBRUARY).catch((thrown: unknown) => thrown);
  if (!(error instanceof GridmeterError)) throw new Error("nothing was refused");
  return error;
}

describe("A uid counts once: tenants whose selections of one namespace overlap are refused before they are counted", () => {
  test.each([
    ["one without matchers", of("one", `job="kube-state-metrics"`), of("all")],
    ["other matchers for the same pods", of("one", `pod=~"job-.*"`), of("two", `job=~"kube.*"`)],
    ["patterns that share one pod", of("one", `pod=~"job-[0-3]"`), of("two", `pod=~"job-[34]"`)],
    ["negations", of("one", `pod!="job-1"`), of("two", `pod!="job-2"`)],
    [
      "two addresses of one server",
      { ...of("one"), server: "http://a:9090" },
      { ...of("two"), server: "http://b:9090" },
    ],
    [
      "two addresses of one server, and matchers that would be apart on one",
      { ...of("one", `job="kube-state-metrics"`), server: "http://a:9090" },
      { ...of("two", `job="kube-state-metrics"`), server: "http://b:9090" },
    ],
  ])("tenants_overlap, with an example: %s", async (_what, one, other) => {
    const world = new World(cluster(JOBS));
    for (const tenants of [
      [one, other],
      [other, one],
    ]) {
      const error = await refusal(world, tenants);
      expect(error).toMatchObject({ code: "tenants_overlap", exit: 2, retryable: false });
      expect(error.message).toContain(`"${tenants[0]!.name}" and "${tenants[1]!.name}"`);
      expect(JOBS.map(({ uid }) => uid)).toContain(/uid (?<uid>[0-9a-f-]{36})/.exec(error.message)?.[1]);
      expect(error.message).toMatch(/namespace "grid".*Nothing was published.*PROMETHEUS_LABELS/);
    }
    expect(await world.store.list("")).toEqual([]);
  });

  test.each([
    ["values of one label that differ", [of("a", `cluster="a"`), of("b", `cluster="b"`)]],
    ["patterns without a pod in common", [of("a", `cluster=~"a|x"`), of("b", `cluster=~"b|y"`)]],
    ["a part and all but that part", [of("a", `cluster="a"`), of("b", `cluster!="a"`)]],
    ["other namespaces", [of("a"), tenant("second")]],
  ])("apart: %s", async (_what, tenants) => {
    const world = twoClusters();
    expect(outcomes(await world.run(NOW, tenants, FEBRUARY))).toEqual({ "2025-02": "published" });
    expect(world.shown("2025-02")).toMatchObject({ jobs: 5, syncJobs: 5 });
  });

  test("on a server that refuses long windows, too", async () => {
    const world = new World(cluster(JOBS));
    const options = { gap: ["2025-01", "2025-03"], memory: { maxWindow: 2 * DAY } } as const;
    await expect(world.run(NOW, [of("one"), of("two")], options)).rejects.toMatchObject({ code: "tenants_overlap" });
  });

  test("three tenants, of which the first and the last overlap", async () => {
    const error = await refusal(twoClusters(), [
      of("a", `cluster="a"`),
      of("b", `cluster="b"`),
      of("c", `pod="job-0"`),
    ]);
    expect(error.message).toContain(`"a" and "c"`);
  });

  test("where matchers show that they are apart, or namespaces differ, nothing is asked", async () => {
    const never = stubMonitoring({ sample: () => Promise.reject(new Error("asked")) });
    const refuse = (tenants: readonly Tenant[]) => refuseOverlap(tenants, () => never, { mode: "auto" }, at(NOW));
    for (const tenants of [
      [of("a", `cluster="a"`), of("b", `cluster="b"`)],
      [of("a", `cluster="a"`, `x="1"`), of("b", `x="1"`, `cluster="b"`)],
      [of("a"), tenant("second")],
    ])
      await expect(refuse(tenants)).resolves.toBeUndefined();
    await expect(refuse([of("a"), of("b")])).rejects.toThrow("asked");
  });

  test("pods that only the one has in its sample are looked for in the other, whichever is the larger", async () => {
    const many = Array.from({ length: 150 }, (_, index) => ended(1_739_000_000 + 60 * index, { pod: `new-${index}` }));
    const world = new World(cluster([...JOBS, ...many]));
    expect((await refusal(world, [of("all"), of("few", `pod=~"job-.*"`)])).code).toBe("tenants_overlap");
    expect((await refusal(world, [of("few", `pod=~"job-.*"`), of("all")])).code).toBe("tenants_overlap");
  });
});
