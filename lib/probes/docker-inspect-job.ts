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
 * Finds the job of OpenPAI, or of its fork DLWorkspace, in a container's labels (jobs on YARN) and environment (on Kubernetes, where the labels are the
 * kubelet's). A label wins, as the user's own settings are in the environment.
 */
export const readJob = (labels: Texts, environment: Texts): ContainerJob => {
  const either = (...keys: readonly string[]) => first(labels, ...keys) ?? first(environment, ...keys);
  return {
    job: either("PAI_JOB_NAME", "DLTS_JOB_ID", "DLWS_JOB_ID"),
    user: either("PAI_USER_NAME", "PAI_USERNAME", "DLTS_USER_NAME", "DLWS_USER_NAME"),
    role: either("PAI_CURRENT_TASK_ROLE_NAME", "FC_TASKROLE_NAME"),
    taskIndex: either("PAI_TASK_INDEX", "FC_TASK_INDEX", "PAI_CURRENT_TASK_ROLE_CURRENT_TASK_INDEX"),
    instance: either("APP_ID", "FC_FRAMEWORK_ATTEMPT_INSTANCE_UID"),
    virtualCluster: either("PAI_VIRTUAL_CLUSTER") ?? either("PAI_JOB_VC_NAME"),
  };
};
