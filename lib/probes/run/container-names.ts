import type { ContainerNames } from "../container.ts";

/** What is known of a container of which only the id was printed, or not even that. */
export const namesById = (id: string | undefined): ContainerNames => ({
  id,
  name: undefined,
  namespace: undefined,
  pod: undefined,
  container: undefined,
});
