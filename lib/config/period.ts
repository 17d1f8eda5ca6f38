import { DateTime } from "luxon";
import { bad, good, type Parsed } from "./parsed.ts";

// Nothing ran on Kubernetes before; an earlier year is a slip of the pen that would ask for thousands of months.
const EARLIEST_YEAR = 2014;

/** No time is written in more characters. */
const LONGEST = 100;

/**
 * An ISO 8601 time with its zone, as epoch seconds (a fraction of a second is cut off). The zone must be written out:
 * a month's border in local time would put jobs into the wrong month of APEL. A space in place of the T is taken, as KAPEL does.
 */
export function parseInstant(text: string): Parsed<number> {
  if (text.length > LONGEST) return bad("is not a time in ISO 8601 such as 2024-03-01T00:00:00Z");
  const iso = text.trim().replace(/^(\d{4}-\d\d-\d\d) +(?=\d)/, "$1T");
  const parsed = DateTime.fromISO(iso, { setZone: true });
  if (!parsed.isValid) return bad("is not a time in ISO 8601 such as 2024-03-01T00:00:00Z");
  if (!/T.*(Z|[+-]\d\d(:?\d\d)?)$/i.test(iso)) {
    const written = iso.includes("T") ? iso : `${iso}T00:00:00`;
    return bad(`has no time zone. For UTC write ${written}Z, else add the offset, such as ${written}+01:00`);
  }
  if (parsed.toUTC().year < EARLIEST_YEAR) {
    return bad(`lies before ${EARLIEST_YEAR}, when nothing ran on Kubernetes. Check the year`);
  }
  return good(Math.floor(parsed.toSeconds()));
}
