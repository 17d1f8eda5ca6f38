import { expect, test } from "vitest";
import { monthsTable } from "../../../bin/show/run.ts";
import { summarise } from "../../../lib/accounting/summary.ts";
import { cluster, ended, tenant, World } from "../accounting/world.ts";

test("a dry run says what it would publish, in plain data and in the table; all else reads the same", async () => {
  const world = new World(cluster([ended("2025-02-03T12:00")]));
  const result = await world.run("2025-02-20", [tenant("grid")]);
  const statuses = (dryRun: boolean): readonly string[] =>
    summarise(result, dryRun).months.flatMap(({ units }) => units.map(({ status }) => status));
  expect(statuses(false)).toEqual(["published", "published"]);
  expect(statuses(true)).toEqual(["would_publish", "would_publish"]);
  const [table, dry] = [monthsTable(summarise(result)), monthsTable(summarise(result, true))];
  expect(table).toContain("published (new)");
  expect(dry).toContain("would publish (new)");
  expect(dry).not.toContain("published");

  const again = await world.run("2025-02-20", [tenant("grid")]);
  expect(summarise(again, true)).toEqual(summarise(again));
});
