import { assert, constantFrom, nat, property, uuid } from "fast-check";
import { describe, expect, it } from "vitest";
import type { Row } from "../../../../lib/accounting/model/monitoring.ts";
import { type Spelling, spellings } from "../../../../lib/accounting/prometheus/labels.ts";
import { GridmeterError } from "../../../../lib/shared/errors.ts";
import { type InstantFact, factQuery } from "../../../../lib/accounting/prometheus/queries.ts";
import { rowReader, uidOfId } from "../../../../lib/accounting/prometheus/rows.ts";

const uid = "0a1b2c3d-1111-4222-8333-444455556666";
const container = "f".repeat(64);
const selection = { namespace: "prod", matchers: [], labelPrefix: "", voLabel: "label_vo" };
const [PLAIN, RENAMED] = spellings(selection) as [Spelling, Spelling];

/** Ids as kubelets and runtimes write them, from public reports; U is the uid, V the same with underscores, C a container. */
const FORMS = [
  // the cgroupfs driver: burstable, best effort, guaranteed; the pod itself
  "/kubepods/burstable/podU/C",
  "/kubepods/besteffort/podU/C",
  "/kubepods/podU/C",
  "/kubepods/burstable/podU",
  // --cgroup-root, twice the same name, a group named as the distribution likes
  "/custom/kubepods/burstable/podU/C",
  "/kubepods/kubepods/besteffort/podU/C",
  "/actions_job/kubepods/podU/C",
  // the systemd driver with each runtime, and what else a runtime puts beside its containers
  "/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-podV.slice/cri-containerd-C.scope",
  "/kubepods.slice/kubepods-besteffort.slice/kubepods-besteffort-podV.slice/docker-C.scope",
  "/kubepods.slice/kubepods-podV.slice/crio-C.scope",
  "/kubepods.slice/kubepods-podV.slice/crio-C.scope/container",
  "/kubepods.slice/kubepods-podV.slice/crio-conmon-C.scope",
  "/kubepods.slice/kubepods-podV.slice/crio-conmon-C",
  "/kubepods.slice/kubepods-podV.slice/C",
  "/kubepods.slice/kubepods-podV.slice",
  "/user.slice/user-1000.slice/user@1000.service/kubepods.slice/kubepods-podV.slice/cri-containerd-C.scope",
  "/user.slice/user-1000.slice/user-1000-kubepods-podV.slice/C",
  // dashes in a slice, as some write it and as systemd unfolds it
  "/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-podU.slice/docker-C.scope",
  "/kubepods.slice/kubepods-pod0a1b2c3d.slice/kubepods-pod0a1b2c3d-1111.slice/kubepods-podU.slice/crio-C.scope",
  // a kubelet with the systemd driver over a runtime without it
  "/system.slice/containerd.service/kubepods-burstable-podV.slice:cri-containerd:C",
  "/system.slice/containerd.service/kubepods-besteffort-podV.slice/C",
  "/system.slice/k3s.service/kubepods-podV.slice:cri-containerd:C",
  "/kubepods-besteffort-podV.slice:cri-containerd:C",
  "/kubepods-podV.slice:crio:C",
  "kubepods-burstable-podV.slice:cri-containerd:C",
  "/system.slice/containerd.service/kubepods-burstable-podU.slice:cri-containerd:C",
  "/system.slice/containerd.service/kubelet-kubepods-besteffort-podV.slice:cri-containerd:C",
  // nodes that are containers: kind, minikube, k3d, LXC
  "/kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-burstable.slice/kubelet-kubepods-burstable-podV.slice/cri-containerd-C.scope",
  "/kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-podV.slice/cri-containerd-C.scope",
  "/kubelet/kubepods/burstable/podU/C",
  "/docker/C/kubelet/kubepods/besteffort/podU/C",
  "/docker/C/kubepods/besteffort/podU/C",
  "/docker/C/kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-podV.slice/cri-containerd-C.scope",
  "/system.slice/docker-C.scope/kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-podV.slice/crio-C.scope",
  "/system.slice/docker-C.scope/kubepods/besteffort/podU/C",
  "/machine.slice/libpod-C.scope/container/kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-podV.slice/C",
  "/libpod_parent/libpod-C/kubepods/besteffort/podU/C",
  "/lxc.payload.node-1/kubepods/besteffort/podU/C",
  "/lxc/node-1/kubepods.slice/kubepods-podV.slice/cri-containerd-C.scope",
  // Kata: the sandbox stands in for the container
  "/kubepods/besteffort/podU/kata_C",
  "/kata_overhead/kubepods.slice/kubepods-podV.slice:cri-containerd:C",
  "/kata_overhead/kubepods/besteffort/podU/C",
  "/kubepods.slice/kubepods-podV.slice/kata_C",
  // as /proc/<pid>/cgroup shows them
  "0::/kubepods.slice/kubepods-podV.slice/cri-containerd-C.scope",
  "12:cpu,cpuacct:/kubepods/burstable/podU/C",
  "/../../podU/C",
  "/../kubepods-podV.slice/cri-containerd-C.scope",
];
const OTHER = "00000000-0000-4000-8000-000000000000";

const fill = (form: string, id: string, name = container): string =>
  form
    .replaceAll("U", () => id)
    .replaceAll("V", () => id.replaceAll("-", "_"))
    .replaceAll("C", () => name);

describe("the uid in cAdvisor's id", () => {
  it.each(FORMS)("%s", (form) => {
    expect(uidOfId(fill(form, uid))).toBe(uid);
  });

  it("is found in every form, whatever it is", () => {
    assert(
      property(uuid(), constantFrom(...FORMS), nat(), (any, form, name) => {
        expect(uidOfId(fill(form, any, name.toString(16).padStart(64, "0")))).toBe(any);
      }),
    );
  });

  it("is asked for in every form where only some pods are", () => {
    for (const only of [{ uids: [OTHER, uid] }, { prefixes: ["f", "0a1b2c3d-11"] }]) {
      const query = factQuery("cpu", selection, PLAIN, { from: 0, to: 60 }, only);
      const pattern = new RegExp(`^(?:${/id=~"([^"]*)"/.exec(query)?.[1] ?? "-"})$`);
      for (const form of FORMS) expect(fill(form, uid)).toMatch(pattern);
      expect(fill("/kubepods/podU/C", "12345678-1111-4222-8333-444455556666")).not.toMatch(pattern);
    }
  });

  it("is that of a kubelet inside a pod of another kubelet", () => {
    assert(
      property(constantFrom(...FORMS), constantFrom(...FORMS), (outer, inner) => {
        expect(uidOfId(`${fill(outer, OTHER)}/${fill(inner, uid)}`)).toBe(uid);
      }),
    );
  });

  it.each([
    "/kubepods/burstable/podD/C",
    "/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-podD.slice/crio-C.scope",
    "/kubepods-burstable-podD.slice:crio:C",
  ])("is the 32 digits of a static pod: %s", (form) => {
    const digits = "9da3b2a14682e1fb23be3c2492753207";
    expect(uidOfId(fill(form, uid).replace("D", digits))).toBe(digits);
  });

  it.each([
    "",
    "/",
    "/pod",
    "pod",
    "/kubepods",
    "/kubepods.slice/kubepods-burstable.slice",
    "/system.slice/podman.service/x",
    "/system.slice/podface.service",
    "/kubepods/podbad/C",
    "/podC/C",
    "/podruntime/docker/kubepods/crio-C",
    "/docker/C",
    "/system.slice/docker-C.scope",
    "/k8s.io/C",
    "/kata_overhead/C",
    "/machine.slice/libpod-C.scope",
    "/machine.slice/machine-libpod_pod_C.slice",
    "/libpodU/x",
    "/kubepods/podUabc/C",
    "/kubepods/podU/C".padEnd(5000, "0"),
  ])("is none in %j", (form) => {
    expect(uidOfId(fill(form, uid))).toBeUndefined();
  });

  it("is looked for in time that grows with the length of the id, up to that of the longest path", () => {
    const texts = [
      "pod",
      "/pod",
      "-pod0",
      `/pod${uid.slice(0, -1)}`,
      "/pod0a1b2c3d-1111-",
      `/pod${"0".repeat(31)}`,
      "0-_",
    ];
    const seconds = (length: number): number => {
      const from = performance.now();
      for (const text of texts) {
        const id = text.repeat(Math.ceil(length / text.length)).slice(0, length);
        for (let again = 0; again < 200; again += 1) expect(uidOfId(id) ?? "").not.toBe(uid);
      }
      return performance.now() - from;
    };
    seconds(4096);
    const times = Array.from({ length: 5 }, () => seconds(4096) / seconds(1024));
    // 4 if linear, 16 if the length counted twice.
    expect(Math.min(...times)).toBeLessThan(10);
    expect(seconds(1_000_000)).toBeLessThan(seconds(4096) * 20 + 1000);
  });
});

describe("rows", () => {
  const rowOf = (fact: InstantFact, labels: Record<string, string>, value: number, spelling = PLAIN): Row | undefined =>
    rowReader(fact, selection, spelling)({ labels, value });

  it("have the text of the VO label, and names of pods where they are asked for", () => {
    const labels = { pod: "p", uid, label_vo: "cms" };
    expect(rowOf("vo", labels, 7)).toEqual({ uid, value: 1, text: "cms" });
    expect(rowOf("name", labels, 7)).toEqual({ uid, value: 7, text: "p" });
    expect(rowOf("end", labels, 7)).toEqual({ uid, value: 7 });
  });

  it("of a label's copies have the moment of the last sample", () => {
    expect(rowOf("voAt", { uid, label_vo: "cms" }, 1234)).toEqual({ uid, value: 1, text: "cms", at: 1234 });
  });

  it("of requests have the value of their copies, by container", () => {
    const labels = { uid, container: "main", gridmeter_value: "0.25" };
    for (const fact of ["cores", "unscheduledCores", "memoryRequest", "unscheduledMemoryRequest"] as const)
      expect(rowOf(fact, labels, 2)).toEqual({ uid, value: 0.25, part: "main" });
  });

  it("in the renamed spelling are read from the renamed labels, the plain ones where those are not there", () => {
    const renamed = { exported_pod: "p", pod: "ksm-0", exported_container: "main", container: "ksm", uid };
    expect(rowOf("name", renamed, 7, RENAMED)).toEqual({ uid, value: 7, text: "p" });
    expect(rowOf("name", { ...renamed, uid: "ksm", exported_uid: uid }, 7, RENAMED)?.uid).toBe(uid);
    expect(rowOf("end", { uid }, 7, RENAMED)).toEqual({ uid, value: 7 });
    expect(rowOf("cores", { ...renamed, gridmeter_value: "2" }, 1, RENAMED)).toEqual({ uid, value: 2, part: "main" });
  });

  it("refuses pods without a uid instead of joining them", () => {
    const read = () => rowOf("end", {}, 1);
    expect(read).toThrow(GridmeterError);
    expect(read).toThrow(/"prod".*no uid/);
  });

  it("of CPU use are handed on without a uid where no pod is named, so that it can be said why", () => {
    expect(rowOf("cpu", { id: "/docker/x" }, 5)).toEqual({ uid: "", value: 5, part: "/docker/x" });
    expect(rowOf("cpu", {}, 5)).toEqual({ uid: "", value: 5, part: "" });
  });

  it("leave out the memory of containers that belong to no pod", () => {
    expect(rowOf("memoryUsed", { id: "/docker/x", container: "a" }, 5)).toBeUndefined();
  });

  it("hands on NaN", () => {
    expect(rowOf("end", { uid }, Number.NaN)?.value).toBeNaN();
    for (const text of ["NaN", "", "much"]) expect(rowOf("cores", { uid, gridmeter_value: text }, 1)?.value).toBeNaN();
    expect(rowOf("cores", { uid, gridmeter_value: "+Inf" }, 1)?.value).toBe(Infinity);
  });
});
