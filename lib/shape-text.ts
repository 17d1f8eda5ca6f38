import { z } from "zod";

/** Of a long list of faults the first ones say enough; of a text of a stranger's there may be a million. */
const MOST = 10;
const LONGEST = 1000;

/** What is wrong with a value's shape, on one line. */
export function shapeText({ issues }: z.ZodError): string {
  const text = z.prettifyError({ issues: issues.slice(0, MOST) });
  const more = issues.length > MOST ? ` and ${issues.length - MOST} more` : "";
  return text.slice(0, LONGEST).replaceAll(/\s+/g, " ") + more;
}
