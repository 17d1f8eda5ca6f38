import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { parseDockerInspect } from "../../../../lib/agent/probes/docker-inspect.ts";
import { printed } from "../../../support/probe-fixtures.ts";

type Texts = Readonly<Record<string, string>>;

const inspect = (name: string, environment: Texts, labels: Texts) => {
  const Env = Object.entries(environment).map(([key, value]) => `${key}=${value}`);
  const json = [{ Id: "0a1b2c3d4e5f", Name: name, Config: { Env, Labels: labels }, HostConfig: { Runtime: "runc" } }];
  return parseDockerInspect(printed(JSON.stringify(json))).value[0]!;
};

const KUBERNETES = "/k8s_main_pod-1_default_69c72bad-46fa-11e9-8937-000d3ab38724_0";
const PLAIN = "/job-container_e47";
const KEYS = [
  "PAI_JOB_NAME",
  "PAI_USER_NAME",
  "PAI_USERNAME",
  "PAI_CURRENT_TASK_ROLE_NAME",
  "FC_TASKROLE_NAME",
  "PAI_TASK_INDEX",
  "FC_TASK_INDEX",
  "APP_ID",
  "FC_FRAMEWORK_ATTEMPT_INSTANCE_UID",
  "PAI_VIRTUAL_CLUSTER",
  "PAI_JOB_VC_NAME",
  "DLTS_JOB_ID",
  "DLWS_JOB_ID",
  "DLWS_USER_NAME",
] as const;
const texts = (value: string) =>
  fc.subarray([...KEYS]).map((keys) => Object.fromEntries(keys.map((key) => [key, value])));

describe("labels, which any image may have", () => {
  it("drawn: where the environment names the job, no other label does", () => {
    fc.assert(
      fc.property(texts("platform"), texts("image"), fc.constantFrom(KUBERNETES, PLAIN), (platform, image, name) => {
        const environment = { ...platform, PAI_JOB_NAME: "platform" };
        const { job } = inspect(name, environment, image);
        expect(job).toEqual(inspect(name, environment, {}).job);
        expect(Object.values(job)).not.toContain("image");
      }),
    );
  });

  it("drawn: they name no job, no pod and no GPU of a container of Kubernetes", () => {
    fc.assert(
      fc.property(texts("image"), texts("platform"), (image, platform) => {
        const labels = { ...image, GPU_ID: "0,1", "io.kubernetes.pod.name": "pod-1" };
        const found = inspect(KUBERNETES, platform, labels);
        expect(found.job).toEqual(inspect(KUBERNETES, platform, {}).job);
        expect(found.gpus.nvidia).toBeUndefined();
      }),
    );
  });

  it("name no pod of a container that the kubelet has not named", () => {
    const labels = {
      "io.kubernetes.pod.name": "victim",
      "io.kubernetes.pod.namespace": "kube-system",
      "io.kubernetes.container.name": "apiserver",
      "io.kubernetes.pod.uid": "1",
    };
    expect(inspect(PLAIN, {}, labels)).toMatchObject({
      pod: undefined,
      namespace: undefined,
      container: undefined,
      podUid: undefined,
    });
    expect(inspect(KUBERNETES, {}, labels)).toMatchObject({ pod: "victim", namespace: "kube-system", podUid: "1" });
  });

  it("of a job on YARN fill in what its environment leaves out, if they speak of the same job", () => {
    const labels = { PAI_JOB_NAME: "job", PAI_USER_NAME: "ann", GPU_ID: "1" };
    expect(inspect(PLAIN, { APP_ID: "application_1" }, labels).job).toMatchObject({ job: "job", user: "ann" });
    expect(inspect(PLAIN, { PAI_JOB_NAME: "job" }, labels).job).toMatchObject({ job: "job", user: "ann" });
    expect(inspect(PLAIN, { PAI_JOB_NAME: "other" }, labels).job).toMatchObject({ job: "other", user: undefined });
    expect(inspect(PLAIN, {}, labels).gpus.nvidia).toEqual([{ by: "minor", value: 1 }]);
  });
});
