import type { Labels } from "../../../shared/exposition.ts";
import { labelText } from "./parse.ts";

/** What a container is called. Which of it is known depends on the tool that has seen it. */
export type ContainerNames = {
  /** as printed: 12 or 64 digits; undefined where only names were printed */
  readonly id: string | undefined;
  readonly name: string | undefined;
  readonly namespace: string | undefined;
  readonly pod: string | undefined;
  readonly container: string | undefined;
};

/** docker, podman and crictl print 12 or 64 digits of the id of one container (openpai#2192): 12 are compared. */
export const shortId = (id: string): string => id.slice(0, 12);

const ID = /^[A-Za-z0-9][A-Za-z0-9_.-]{0,127}$/;

/** Whether a text may be a container's id, or the name that is printed in place of it. */
export const isContainerId = (text: string): boolean => ID.test(text);

/** The names of a container of which only the id was printed, or not even that. */
export const namesById = (id: string | undefined): ContainerNames => ({ id, name: undefined, ...NO_POD });

const NO_POD = { namespace: undefined, pod: undefined, container: undefined };

/** The kubelet calls a docker container `k8s_CONTAINER_POD_NAMESPACE_UID_ATTEMPT`; none of these has an underscore. */
export const kubernetesNames = (name: string): Pick<ContainerNames, "namespace" | "pod" | "container"> => {
  const [prefix, container, pod, namespace, uid, attempt] = name.split("_");
  return prefix !== "k8s" || uid === undefined || attempt === undefined ? NO_POD : { namespace, pod, container };
};

/**
 * The labels that every series of one container carries, the same whichever tool has seen it. One that is not known is empty and
 * not left out, so that the label set of a metric stays the same (dcgm-exporter#342).
 */
export const containerLabels = (names: ContainerNames): Labels => ({
  container_id: labelText(shortId(names.id ?? "")),
  name: labelText(names.name),
  namespace: labelText(names.namespace),
  pod: labelText(names.pod),
  container: labelText(names.container),
});

/** What the outputs of two tools are joined by: the id, else the name. Equal keys mean equal labels. */
export const containerKey = ({ id, name }: Pick<ContainerNames, "id" | "name">): string | undefined => {
  if (id !== undefined) return shortId(id);
  return name === undefined ? undefined : `name ${labelText(name)}`;
};
