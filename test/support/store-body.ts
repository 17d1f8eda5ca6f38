const LENGTH = 20_000;

/** A long body that shows when it is torn. */
export function bodyOf(number: number): string {
  return `${number} ${String(number % 10).repeat(LENGTH)}`;
}

/** The number of a whole body. */
export function numberIn(body: string): number {
  const number = Number(body.split(" ", 1)[0]);
  if (body !== bodyOf(number)) throw new Error(`torn: ${body.length} characters, beginning ${body.slice(0, 20)}`);
  return number;
}
