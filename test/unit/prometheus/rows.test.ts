import { describe, expect, it } from "vitest";
import { GridmeterError } from "../../../lib/errors.ts";
import { rowsOf, uidOfId } from "../../../lib/prometheus/rows.ts";

const uid = "0a1b2c3d-1111-4222-8333-444455556666";
const underscored = uid.replaceAll("-", "_");
const container = "f".repeat(64);

describe("the uid in cAdvisor's id", () => {
  it.each([
    `/kubepods/burstable/pod${uid}/${container}`,
    `/kubepods/pod${uid}/${container}`,
    `/kubepods/burstable/pod${uid}`,
    `/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod${underscored}.slice/cri-containerd-${container}.scope`,
    `/kubepods.slice/kubepods-pod${underscored}.slice/crio-${container}.scope`,
    `/kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-besteffort.slice/kubelet-kubepods-besteffort-pod${underscored}.slice/cri-containerd-${container}.scope`,
    `/docker/${container}/kubelet/kubepods/besteffort/pod${uid}/${container}`,
    `/kubepods/pod00000000-0000-4000-8000-000000000000/${container}/kubepods/burstable/pod${uid}/${container}`,
  ])("%s", (id) => {
    expect(uidOfId(id)).toBe(uid);
  });

  it.each(["/", "", "/kubepods", "/kubepods.slice/kubepods-burstable.slice", "/system.slice/podman.service/x", "/pod"])(
    "is none in %j",
    (id) => {
      expect(uidOfId(id)).toBeUndefined();
    },
  );
});

describe("rows", () => {
  const selection = { namespace: "prod", matchers: [], labelPrefix: "", voLabel: "label_vo" };

  it("takes the greatest VO of a pod that was relabelled", () => {
    const sample = (vo: string) => ({ labels: { namespace: "prod", pod: "p", uid, label_vo: vo }, value: 1 });
    const expected = [{ uid, value: 1, text: "cms" }];
    expect(rowsOf("vo", selection, [sample("atlas"), sample("cms"), sample("alice")])).toEqual(expected);
    expect(rowsOf("vo", selection, [sample("cms"), sample("alice")])).toEqual(expected);
  });

  it("refuses pods without a uid instead of joining them by name", () => {
    const read = () => rowsOf("end", selection, [{ labels: { namespace: "prod", pod: "p" }, value: 1 }]);
    expect(read).toThrow(GridmeterError);
    expect(read).toThrow(/"prod".*no uid/);
  });

  it("leaves out containers that belong to no pod", () => {
    expect(rowsOf("cpu", selection, [{ labels: { id: "/system.slice/x" }, value: 5 }])).toEqual([]);
  });

  it("hands on NaN, also beside a good copy", () => {
    const sample = (value: number) => ({ labels: { namespace: "prod", pod: "p", uid }, value });
    for (const values of [
      [1, Number.NaN],
      [Number.NaN, 1],
    ]) {
      expect(rowsOf("cores", selection, values.map(sample))[0]?.value).toBeNaN();
    }
  });
});
