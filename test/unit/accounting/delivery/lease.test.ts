import { expect, test } from "vitest";
import { type Taking, LEASE_SECONDS, takeLease } from "../../../../lib/accounting/delivery/lease.ts";
import { MemoryStore } from "../../../../lib/accounting/store/store.ts";
import { REQUEST_SECONDS } from "../../../../lib/accounting/sending/ams.ts";
import { unit } from "../../../support/dirq-messages.ts";

/** Clocks that a test turns; another machine's wall clock may be ahead. */
function world(ahead = 0) {
  const store = new MemoryStore();
  const time = { now: 1_000_000 };
  const clocks = { wall: () => time.now, steady: () => time.now };
  const other = { wall: () => time.now + ahead, steady: () => time.now };
  return {
    store,
    time,
    take: (onHost = false) => takeLease(store, unit, { onHost, clocks }),
    takeElsewhere: () => takeLease(store, unit, { onHost: false, clocks: other }),
  };
}
const leaseOf = (taking: Taking) => {
  if ("lease" in taking) return taking.lease;
  throw new Error(taking.taken);
};

test("one at a time has a unit; given back, the next one has it at once", async () => {
  const { take } = world();
  const lease = leaseOf(await take());
  expect(await take()).toMatchObject({ taken: expect.stringContaining("delivers it, or was ended at it") as string });
  await lease.release();
  leaseOf(await take());
});

test("of many at once one gets it", async () => {
  const { take } = world();
  const takings = await Promise.all(Array.from({ length: 20 }, () => take()));
  expect(takings.filter((taking) => "lease" in taking)).toHaveLength(1);
});

test("of one that was killed it runs out by itself, a minute later than it says, since clocks differ", async () => {
  const { take, takeElsewhere, time } = world(55);
  leaseOf(await take());
  time.now += LEASE_SECONDS;
  expect(await takeElsewhere()).toMatchObject({ taken: expect.any(String) as string });
  time.now += 61;
  leaseOf(await takeElsewhere());
});

test("it is renewed in time, so that there is always more left than a request takes", async () => {
  const { take, takeElsewhere, time } = world();
  const lease = leaseOf(await take());
  for (let round = 0; round < 50; round += 1) {
    await lease.hold();
    time.now += REQUEST_SECONDS + 20;
    expect(await takeElsewhere()).toMatchObject({ taken: expect.any(String) as string });
  }
  await lease.release();
  leaseOf(await takeElsewhere());
});

test("one that slept too long holds nothing any more, and gives nothing back that is another's", async () => {
  const { take, takeElsewhere, time } = world();
  const lease = leaseOf(await take());
  time.now += 1000;
  const others = leaseOf(await takeElsewhere());
  await expect(lease.hold()).rejects.toMatchObject({ code: "lease_lost" });
  await lease.release();
  expect(await take()).toMatchObject({ taken: expect.any(String) as string });
  await others.hold();
});

test("of a program that was killed on this host it is taken at once; a function, of which many look alike, waits", async () => {
  const { store, take } = world();
  leaseOf(await take(true));
  expect(await take(true)).toHaveProperty("taken");
  const [key = ""] = await store.list("lease/");
  const held = (await store.get(key))?.body ?? "";
  await store.put(key, held.replace(/"started":"[^"]*"/, '"started":"1"'));
  expect(await take(false)).toHaveProperty("taken");
  leaseOf(await take(true));
});

test("what is no lease holds nobody up", async () => {
  const { store, take } = world();
  await leaseOf(await take()).release();
  const [key = ""] = await store.list("lease/");
  for (const text of ["", "hello", "{}", '{"v":2}']) {
    await store.put(key, text);
    const taking = await take();
    expect(taking).toHaveProperty("lease");
    await leaseOf(taking).release();
  }
});
