import { defineConfig } from "vitest/config";

/** Tests that only `npm run test:long` runs: at full size, with other stand-ins, deployed, or over a long time. */
const LONG = [
  "test/integration/agent-adversity.test.ts",
  "test/integration/bench-data.test.ts",
  "test/integration/deploy-accounts.test.ts",
  "test/integration/deploy-release.test.ts",
  "test/integration/deploy-ams.test.ts",
  "test/integration/deploy.test.ts",
  "test/integration/docs-commands.test.ts",
  "test/integration/memory-monitoring.test.ts",
  "test/integration/scale-memory*.test.ts",
  "test/integration/stand-ins-of-prometheus.test.ts",
  "test/integration/victoria-metrics.test.ts",
];
/** Tests of which `npm test` runs a part: they look at test/support/size.ts. */
const SIZED = [
  "test/integration/account-kill.test.ts",
  "test/integration/functions.test.ts",
  "test/integration/runner-process-control.test.ts",
  "test/integration/spool.test.ts",
  "test/integration/account-auto.test.ts",
  "test/integration/adaptive-limits.test.ts",
  "test/integration/agent-e2e.test.ts",
  "test/integration/broken-answers.test.ts",
  "test/integration/dirq.test.ts",
  "test/integration/evidence-refused.test.ts",
  "test/integration/functions-faults-kills.test.ts",
  "test/integration/outbox-contract.test.ts",
  "test/integration/situations-facts.test.ts",
  "test/integration/situations-seen.test.ts",
  "test/integration/send-kills.test.ts",
  "test/integration/spool-kills.test.ts",
  "test/unit/accounting/store/processes.test.ts",
  "test/unit/agent/linear-time.test.ts",
  "test/unit/agent/probes/*-fuzz.test.ts",
];
/** Slower than their neighbours (whole command lines), or in need of a process of their own (a mocked module, times). */
const APART = [
  "test/samples/cases.test.ts",
  "test/unit/accounting/delivery/throwing.test.ts",
  "test/unit/accounting/linear-time.test.ts",
  "test/unit/agent/linear-time.test.ts",
];

export default defineConfig({
  test: {
    testTimeout: 60_000,
    hookTimeout: 120_000,
    pool: "forks",
    coverage: { provider: "v8", include: ["lib/**", "bin/**", "functions/**"] },
    projects: [
      {
        extends: true,
        test: {
          name: "fast",
          include: ["test/unit/**/*.test.ts", "test/samples/*.test.ts"],
          exclude: APART,
          // A process for each file would take as long as the tests.
          isolate: false,
          maxWorkers: 2,
          sequence: { groupOrder: 0 },
        },
      },
      {
        extends: true,
        // These wait for servers, processes and deadlines more than they compute.
        test: {
          name: "integration",
          include: ["test/integration/*.test.ts", ...APART],
          exclude: LONG,
          maxWorkers: 3,
          sequence: { groupOrder: 1 },
        },
      },
      {
        extends: true,
        test: {
          name: "long",
          include: [...LONG, ...SIZED],
          maxWorkers: 2,
          sequence: { groupOrder: 2 },
          env: { GRIDMETER_TESTS: "long" },
        },
      },
    ],
  },
});
