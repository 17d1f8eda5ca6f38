// What containers used takes little memory however long their names are: a child with a small heap adds them up.
import { execFile } from "node:child_process";
import { promisify } from "node:util";
import { expect, test } from "vitest";

const PODS = 150_000;
const CONTAINERS = 2;
/** MB of old objects that the child may hold: the names of the containers alone are more than that. */
const HEAP = 44;

const CHILD = `
import { askSums } from ${JSON.stringify(new URL("../../lib/accounting/counting/facts.ts", import.meta.url).href)};
import { uidOfId } from ${JSON.stringify(new URL("../../lib/accounting/prometheus/rows.ts", import.meta.url).href)};
const hex = (number, length) => number.toString(16).padStart(length, "0");
const monitoring = {
  facts: async (fact, window, take) => {
    // Twice, as where a try fails halfway.
    for (let again = 0; again < 2; again += 1)
      for (let pod = 0; pod < ${PODS}; pod += 1)
        for (let container = 0; container < ${CONTAINERS}; container += 1) {
          const name = "cri-containerd-" + hex(container, 8) + hex(pod, 56);
          const part = "/kubepods/burstable/pod" + hex(pod, 8) + "-1111-4222-8333-444455556666/" + name;
          take({ uid: uidOfId(part), value: 1 + container, part });
        }
  },
};
const facts = new Map();
await askSums(monitoring, "cpu", { from: 0, to: 3600 }, facts);
let total = 0;
for (const { cpu } of facts.values()) total += cpu;
console.log(JSON.stringify({ pods: facts.size, total }));
`;

test(`${PODS} pods of ${CONTAINERS} containers are added up with a heap of ${HEAP} MB`, async () => {
  expect(PODS * CONTAINERS * 130).toBeGreaterThan(0.8 * HEAP * 2 ** 20);
  const flags = [`--max-old-space-size=${HEAP}`, "--max-semi-space-size=4", "--input-type=module", "--eval", CHILD];
  const { stdout } = await promisify(execFile)(process.execPath, flags);
  expect(JSON.parse(stdout)).toEqual({ pods: PODS, total: PODS * 3 });
}, 60_000);
