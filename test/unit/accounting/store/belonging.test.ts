import { array, assert, constantFrom, nat, property, record } from "fast-check";
import { describe, expect, test } from "vitest";
import { belongingIn } from "../../../../lib/accounting/store/ownership.ts";

const ROOT = { uid: 0, gid: 0, groups: [0] };
const APEL = { uid: 498, gid: 498, groups: [498] };
const SITE = { uid: 1000, gid: 1000, groups: [1000, 498] };

describe("in a queue of apel's", () => {
  const queue = (mode: number) => ({ uid: 498, gid: 498, mode: 0o40000 | mode });
  test("its owner makes files as ever", () => expect(belongingIn(queue(0o755), "queue", APEL)).toEqual({}));
  test("root gives them to the owner", () =>
    expect(belongingIn(queue(0o755), "queue", ROOT)).toEqual({ owner: { uid: 498, gid: 498 } }));
  test("a member of the group shares them", () =>
    expect(belongingIn(queue(0o2770), "queue", SITE)).toEqual({
      owner: { uid: 1000, gid: 498 },
      fileMode: 0o660,
      folderMode: 0o2770,
    }));
  test.each([0o755, 0o2750, 0o757, 0o1777 & ~0o070, 0o720])("a member is refused where the group may not: %o", (mode) =>
    expect(belongingIn(queue(mode), "queue", SITE)).toBeUndefined(),
  );
  test.each([0o777, 0o2770])("others are refused, whatever they may: %o", (mode) =>
    expect(belongingIn(queue(mode), "queue", { uid: 7, gid: 7, groups: [7] })).toBeUndefined(),
  );
});

test("in a queue of root's that apel's group shares, root shares too", () => {
  const shared = { owner: { uid: 0, gid: 498 }, fileMode: 0o660, folderMode: 0o2770 };
  expect(belongingIn({ uid: 0, gid: 498, mode: 0o42770 }, "queue", ROOT)).toEqual(shared);
  expect(belongingIn({ uid: 0, gid: 498, mode: 0o40755 }, "queue", ROOT)).toEqual({ owner: { uid: 0, gid: 498 } });
  expect(belongingIn({ uid: 0, gid: 0, mode: 0o40755 }, "queue", ROOT)).toEqual({});
});

test("whoever is not refused leaves entries that the queue's owner, or root's group, may lock", () => {
  const id = constantFrom(0, 1, 2, 3);
  const own = record({ uid: id, gid: id, groups: array(id) });
  const folder = record({ uid: id, gid: id, mode: nat(0o7777) });
  assert(
    property(folder, own, (folder, own) => {
      const belonging = belongingIn(folder, "queue", own);
      if (belonging === undefined) {
        expect([0, folder.uid]).not.toContain(own.uid);
        return;
      }
      const uid = belonging.owner?.uid ?? own.uid;
      const gid = belonging.owner?.gid ?? own.gid;
      // protected_hardlinks: the owner, or read and write.
      const ownerMay = uid === folder.uid;
      const groupMay = gid === folder.gid && belonging.fileMode === 0o660 && belonging.folderMode === 0o2770;
      expect(ownerMay || groupMay).toBe(true);
      // A user may give its files to its own groups only.
      if (own.uid !== 0) expect([own.gid, ...own.groups]).toContain(gid);
    }),
  );
});

test("a ledger is private, whoever runs", () => {
  for (const own of [ROOT, APEL, SITE])
    expect(belongingIn({ uid: 498, gid: 498, mode: 0o42770 }, "ledger", own)).toMatchObject({
      fileMode: 0o600,
      folderMode: 0o700,
    });
});
