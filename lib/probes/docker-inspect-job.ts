/** The job that a container belongs to. What is not known is undefined. */
export type ContainerJob = {
  readonly job: string | undefined;
  readonly user: string | undefined;
  readonly role: string | undefined;
  readonly taskIndex: string | undefined;
  /** one attempt of the job: a YARN application, or a framework attempt */
  readonly instance: string | undefined;
  readonly virtualCluster: string | undefined;
};

type Texts = ReadonlyMap<string, string>;

const first = (texts: Texts, ...keys: readonly string[]): string | undefined =>
  keys.map((key) => texts.get(key)).find((text) => text !== undefined && text !== "");

/**
 * Finds the job of OpenPAI, or of its fork DLWorkspace, in a container's environment and labels. The platform sets the environment
 * of every job, and has the last word on it. docker puts the labels of the image among those of the container, so that whoever builds an image may write
 * any job there: a label only fills in what the environment leaves out, and only if it speaks of the same job. Where the
 * environment names no job, labels do (old jobs on YARN), but for containers of Kubernetes: it sets no such label.
 */
export const readJob = (labels: Texts, environment: Texts, isKubernetes: boolean): ContainerJob => {
  const job = (texts: Texts) => first(texts, "PAI_JOB_NAME", "DLTS_JOB_ID", "DLWS_JOB_ID");
  const named = job(environment);
  const agree = !isKubernetes && (named === undefined || job(labels) === named);
  const known = agree ? labels : new Map<string, string>();
  const either = (...keys: readonly string[]) => first(environment, ...keys) ?? first(known, ...keys);
  return {
    job: named ?? job(known),
    user: either("PAI_USER_NAME", "PAI_USERNAME", "DLTS_USER_NAME", "DLWS_USER_NAME"),
    role: either("PAI_CURRENT_TASK_ROLE_NAME", "FC_TASKROLE_NAME"),
    taskIndex: either("PAI_TASK_INDEX", "FC_TASK_INDEX", "PAI_CURRENT_TASK_ROLE_CURRENT_TASK_INDEX"),
    instance: either("APP_ID", "FC_FRAMEWORK_ATTEMPT_INSTANCE_UID"),
    virtualCluster: either("PAI_VIRTUAL_CLUSTER") ?? either("PAI_JOB_VC_NAME"),
  };
};
