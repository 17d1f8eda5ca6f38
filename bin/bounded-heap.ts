import { getHeapSpaceStatistics, setFlagsFromString } from "node:v8";

const ENOUGH_BYTES = 8 * 2 ** 20;
const LOOK_EVERY_MS = 20;

/**
 * Bounds the garbage that V8 lets lie while rows of answers pass through, a moment old when they are dead. Old objects are
 * collected when there are half as many again, or several months would take more memory than one. The space for new
 * objects stops growing at a few MB: on a large machine it would become 128, which is more than all the rest of a run
 * needs, and saves no time; but only then, since a smaller one from the start would cost time. Has no effect on results.
 */
export function boundHeap(): void {
  setFlagsFromString("--heap-growing-percent=50");
  const timer = setInterval(() => {
    const space = getHeapSpaceStatistics().find(({ space_name }) => space_name === "new_space");
    if (space !== undefined && space.space_size < ENOUGH_BYTES) return;
    setFlagsFromString("--semi-space-growth-factor=1");
    clearInterval(timer);
  }, LOOK_EVERY_MS);
  timer.unref();
}
