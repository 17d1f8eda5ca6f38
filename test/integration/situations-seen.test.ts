// Whether monitoring saw the pods: labels under another spelling, kube-state-metrics that lists nothing, shards that are away.
import { SEEN, SHARDS, SPELLINGS } from "../simulator/situations/index.ts";
import { testSituations } from "../support/situation-tests.ts";

testSituations([...SPELLINGS, ...SEEN, ...SHARDS]);
