import { getHeapSpaceStatistics, setFlagsFromString } from "node:v8";

const ENOUGH_BYTES = 8 * 2 ** 20;
const LOOK_EVERY_MS = 20;

/**
 * Stops the growth of V8's space for new objects at a few MB. It would become 128 MB on a large machine while rows of
 * answers pass through, all of them garbage a moment later: that is more than all the rest of a run needs, and saves no
 * time. Only now, since a smaller one from the start would cost time. Has no effect on results.
 */
export function boundYoungGeneration(): void {
  const timer = setInterval(() => {
    const space = getHeapSpaceStatistics().find(({ space_name }) => space_name === "new_space");
    if (space !== undefined && space.space_size < ENOUGH_BYTES) return;
    setFlagsFromString("--semi-space-growth-factor=1");
    clearInterval(timer);
  }, LOOK_EVERY_MS);
  timer.unref();
}
