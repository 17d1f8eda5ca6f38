import { CELL, type Window } from "../model/monitoring.ts";
import { type Tenant, isIndividual } from "../model/tenant.ts";
import { spellings } from "./labels.ts";
import { glanceQuery, namespacesQuery, strayQuery } from "./namespaces.ts";
import { type InstantFact, factQuery, presenceQueries, splitLabelQuery, voLabelQuery } from "./queries.ts";
import { evidenceOf, evidenceQuery } from "./seen.ts";
import { targetsQuery, totalShardsQuery } from "./shard-gaps.ts";

/** A query of a run. `asks`: what it asks for and, after "only", in which case a run sends it. Without "only" it always does. */
type PlannedQuery = { readonly asks: string; readonly query: string };

/** What decides which queries a run sends. */
type Asking = Pick<Tenant, "selection" | "model" | "format">;

/** A fact and the case in which it is asked; always where there is none. */
type PlannedFact = { readonly fact: InstantFact; readonly only?: string };

/**
 * The queries that a run sends about one tenant and window, for `gridmeter plan`. A run may narrow a query to some pods, ask
 * for a shorter window, or look past the window's end until its last day is settled; the rest of the text is the same. Questions about
 * what is found to be wrong (gaps, missing metrics, copies that disagree) are not listed.
 */
export function queriesFor(tenant: Asking, window: Window): readonly PlannedQuery[] {
  const { selection } = tenant;
  const label = selection.voLabel;
  return [
    ...evidenceOf(selection).map((evidence, index) =>
      planned("seen", index === 0 ? undefined : "where the one before has no series", evidenceQuery(evidence)),
    ),
    ...(selection.monitoringSelector === undefined
      ? [
          planned("targets", undefined, targetsQuery(selection)),
          planned("shards", undefined, totalShardsQuery(selection, window)),
        ]
      : []),
    ...factsOf(tenant).flatMap(({ fact, only }) =>
      spellings(selection).map((spelling) => planned(fact, only, factQuery(fact, selection, spelling, window))),
    ),
    planned("own labels", "if there are jobs", strayQuery(selection, { from: window.to - 2 * CELL, to: window.to })),
    ...presenceQueries("own pods", selection).map((query) => planned("pods of a day", NONE_FINISHED, query)),
    ...presenceQueries("starts", selection).map((query) => planned("starts", PODS_UNFINISHED, query)),
    planned("namespaces", NO_POD, namespacesQuery(selection, window)),
    planned("namespaces", NO_POD, glanceQuery(selection)),
    ...(label === undefined
      ? []
      : [
          planned("voLabelSeen", `if no job has the label ${label}`, voLabelQuery(selection, window)),
          planned("voLabelSplit", `if a job lacks the label ${label}`, splitLabelQuery(selection, window)),
        ]),
  ];
}

const NO_POD = "if no pod of the namespace is found";
const NONE_FINISHED = "if none finished";
const PODS_UNFINISHED = "if there are pods on a day on which none finished, and the one before has no series";
const ANY_FINISHED = "if a pod has finished";
const lacks = (resource: string): string => `if a finished pod has no ${resource} request that names a node`;

/** The model decides whether CPU use is asked, the format whether names and memory are. */
function factsOf(tenant: Asking): readonly PlannedFact[] {
  const individual = isIndividual(tenant);
  return [
    // A pod's name comes with its end, in one answer.
    { fact: individual ? "name" : "end" },
    { fact: "start" },
    { fact: "succeeded" },
    { fact: "failed", only: "of pods that did not succeed" },
    { fact: "runningUntil", only: "of pods without a row of either phase" },
    { fact: "cores" },
    { fact: "unscheduledCores", only: lacks("CPU") },
    ...present(tenant.selection.voLabel !== undefined, { fact: "vo" }),
    ...present(tenant.model === "wallclock", { fact: "cpu", only: ANY_FINISHED }),
    ...present(individual, { fact: "memoryRequest", only: ANY_FINISHED }),
    ...present(individual, { fact: "unscheduledMemoryRequest", only: lacks("memory") }),
    ...present(individual, { fact: "memoryUsed", only: ANY_FINISHED }),
  ];
}

const present = (wanted: boolean, fact: PlannedFact): readonly PlannedFact[] => (wanted ? [fact] : []);

function planned(asks: string, only: string | undefined, query: string): PlannedQuery {
  return { asks: only === undefined ? asks : `${asks}, only ${only}`, query };
}
