import { setTimeout as sleep } from "node:timers/promises";

const TRIES = 6;
/** of the first wait, milliseconds; it doubles each time */
const FIRST_WAIT = 100;

/**
 * Repeats what the SDK does not repeat by itself (it does so for 429, 500, 503, SlowDown and lost connections): a 409, and
 * a body that came cut short. Waits grow and are random, so that two that met do not meet again.
 */
export async function withRetries<T>(attempt: () => Promise<T>, again: (thrown: unknown) => boolean): Promise<T> {
  for (let tries = 1; ; tries += 1) {
    try {
      return await attempt();
    } catch (thrown) {
      if (tries >= TRIES || !again(thrown)) throw thrown;
      await sleep(Math.random() * FIRST_WAIT * 2 ** tries);
    }
  }
}
