/** Whether `npm run test:long` runs. `npm test` takes a tenth of what is drawn at random, from fixed seeds. */
export const isLong = process.env["GRIDMETER_TESTS"] === "long";

/** How many rounds of something drawn at random a test goes through. @param step the number is a multiple of it */
export function rounds(full: number, step = 1): number {
  return isLong ? full : Math.max(1, Math.round(full / 10 / step)) * step;
}

/** The seed of what is drawn: in the long tests another one each time, which the test's name says. */
export function seed(fixed: number): number {
  return isLong ? Date.now() % 2 ** 31 : fixed;
}
