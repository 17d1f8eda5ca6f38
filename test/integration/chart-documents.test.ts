// The values that the documents show, taken to what helm renders of them.
import { readFileSync } from "node:fs";
import { describe, expect, test } from "vitest";
import { parse } from "yaml";
import { z } from "zod";
import { type Values, render, schemaFaults } from "../support/helm.ts";

const read = (path: string): string => readFileSync(new URL(`../../docs/${path}`, import.meta.url), "utf8");

/** The block of values that a comment in a document names. */
function valuesIn(path: string, name: string): Values {
  const found = new RegExp(`<!-- values: ${name} -->\n *\`\`\`yaml\n([^]*?)\`\`\``).exec(read(path))?.[1];
  if (found === undefined) throw new Error(`${path} has no values ${name}`);
  return z.record(z.string(), z.unknown()).parse(parse(found));
}

const Kuantifier = z.object({
  processor: z.object({
    config: z.record(z.string(), z.string()),
    prometheus_auth: z.object({ secret: z.string(), key: z.string() }),
  }),
  ssmsend: z.object({ host: z.string() }),
});

describe("docs/moving-from-kapel.md", () => {
  test("takes a values file of Kuantifier to a CronJob that counts with its settings and sends", async () => {
    const before = Kuantifier.parse(valuesIn("moving-from-kapel.md", "kuantifier"));
    const objects = await render(valuesIn("moving-from-kapel.md", "gridmeter"));
    expect((await Promise.all(objects.map(schemaFaults))).flat()).toEqual([]);
    const config = objects.find(({ kind }) => kind === "ConfigMap");
    expect(config?.["data"]).toMatchObject({ ...before.processor.config, AMS_HOST: before.ssmsend.host });
    const cron = JSON.stringify(objects.find(({ kind }) => kind === "CronJob"));
    const { secret, key } = before.processor.prometheus_auth;
    expect(cron).toContain(`"valueFrom":{"secretKeyRef":{"name":"${secret}","key":"${key}"}}`);
    expect(cron).toContain('"args":["account","--send"]');
    expect(cron).toContain('"secretName":"gridmeter-host-certificate"');
  });
});

describe("docs/accounting-in-the-cluster.md", () => {
  test("shows values that suffice, and what ssmsend needs beside them", async () => {
    const least = valuesIn("accounting-in-the-cluster.md", "least");
    expect((await render(least)).map(({ kind }) => kind)).toEqual([
      "ConfigMap",
      "PersistentVolumeClaim",
      "CronJob",
      "Pod",
    ]);
    const more = valuesIn("accounting-in-the-cluster.md", "ssmsend");
    const { accounting } = z.object({ accounting: z.record(z.string(), z.unknown()) }).parse(least);
    const { accounting: send } = z
      .object({ accounting: z.object({ send: z.record(z.string(), z.unknown()) }) })
      .parse(more);
    const both = {
      accounting: {
        ...accounting,
        send: { ...z.record(z.string(), z.unknown()).parse(accounting["send"]), ...send.send },
      },
    };
    const cron = JSON.stringify((await render(both)).find(({ kind }) => kind === "CronJob"));
    expect(cron).toContain('"image":"registry.example.org/ssmsend:3.4.1"');
  });
});
