import { describe, expect, it } from "vitest";
import type { Fact, Row } from "../../../lib/accounting/ports.ts";
import { GridmeterError } from "../../../lib/errors.ts";
import { rowReader, uidOfId } from "../../../lib/prometheus/rows.ts";

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

  const rowOf = (fact: Fact, labels: Record<string, string>, value: number): Row | undefined => {
    const reader = rowReader(fact, selection);
    return reader.label === undefined
      ? reader.ofSample({ labels, value })
      : reader.ofText(labels[reader.label] ?? "", value);
  };

  it("have the text of the VO label, and names of pods where they are asked for", () => {
    const labels = { pod: "p", uid, label_vo: "cms" };
    expect(rowOf("vo", labels, 7)).toEqual({ uid, value: 1, text: "cms" });
    expect(rowOf("name", labels, 7)).toEqual({ uid, value: 7, text: "p" });
    expect(rowOf("end", labels, 7)).toEqual({ uid, value: 7 });
  });

  it("refuses pods without a uid instead of joining them", () => {
    const read = () => rowOf("end", {}, 1);
    expect(read).toThrow(GridmeterError);
    expect(read).toThrow(/"prod".*no uid/);
  });

  it("leaves out containers that belong to no pod", () => {
    expect(rowOf("cpu", { id: "/system.slice/x" }, 5)).toBeUndefined();
  });

  it("hands on NaN", () => {
    expect(rowOf("cores", { uid }, Number.NaN)?.value).toBeNaN();
  });
});
