import { describe, expect, test } from "vitest";
import { messageKeys } from "../../../lib/accounting/apel/replace-keys.ts";
import { at, cluster, ended, HOST, SITE, tenant, texts, unitIn, World } from "../accounting/world.ts";
import { EXAMPLES } from "./examples/index.ts";
import { read } from "./markdown.ts";

const DOCUMENT = read("docs/accounting-semantics.md");
const BLOCK = /<!-- example: ([a-z-]+) -->\n```text\n([^]*?)\n```\n/g;
const written = new Map([...DOCUMENT.matchAll(BLOCK)].map(([, name = "", text = ""]) => [name, text]));

describe("docs/accounting-semantics.md", () => {
  test("has a place for every worked example, and no other", () => {
    const markers = [...DOCUMENT.matchAll(/<!-- example: (.*?) -->/g)].map(([, name = ""]) => name);
    expect(markers.toSorted()).toEqual(Object.keys(EXAMPLES).toSorted());
    expect([...written.keys()]).toEqual(markers);
  });

  test.for(Object.entries(EXAMPLES))("%s comes out as it is written", async ([name, compute]) => {
    expect(written.get(name)).toBe(await compute());
  });

  test("a row of KAPEL has the same APEL key as gridmeter's for the same settings", async () => {
    const world = new World(cluster([ended("2025-01-10T12:00")]));
    const settings = tenant("grid", { serviceLevel: { type: "si2k", value: 2975 } });
    const [own = ""] = texts(unitIn(await world.run("2025-02-10", [settings], { gap: "2025-01" }), "2025-01"));
    const values = {
      Site: SITE,
      Month: 1,
      Year: 2025,
      VO: "ops",
      SubmitHost: HOST,
      InfrastructureType: "grid",
      ServiceLevelType: "si2k",
      // A Python float: 11.9 x 250
      ServiceLevel: "2975.0",
      WallDuration: 7200,
      CpuDuration: 7200,
      NumberOfJobs: 3,
      Processors: 0,
      NodeCount: 0,
      EarliestEndTime: at("2025-01-10"),
      LatestEndTime: at("2025-01-11"),
    };
    const lines = Object.entries(values).map(([key, value]) => `${key}: ${value}`);
    const kapel = ["APEL-summary-job-message: v0.2", ...lines, "%%", ""].join("\n");
    expect(messageKeys(kapel)).toEqual(messageKeys(own));
  });
});
