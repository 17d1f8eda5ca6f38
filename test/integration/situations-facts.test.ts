// Metrics that are dropped, copies that disagree, what is left out, replicas with other data, tenants that overlap.
import { BEHIND_ONE_ADDRESS, LEFT_OUT_SITUATIONS, MISSING_METRICS, NEWEST } from "../simulator/situations/index.ts";
import { testSituations } from "../support/situation-tests.ts";

testSituations([...MISSING_METRICS, ...NEWEST, ...LEFT_OUT_SITUATIONS, ...BEHIND_ONE_ADDRESS]);
