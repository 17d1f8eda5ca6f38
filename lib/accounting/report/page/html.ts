import { plainText } from "../../../shared/text.ts";

/** Characters of one text on the page; names are far shorter. */
const LONGEST = 1000;

/** A text from anywhere as text or attribute of the page: nothing in it is markup, and all of it can be seen. */
export function escaped(text: string): string {
  return plainText(text, LONGEST)
    .replaceAll("&", "&amp;")
    .replaceAll("<", "&lt;")
    .replaceAll(">", "&gt;")
    .replaceAll('"', "&quot;")
    .replaceAll("'", "&#39;");
}
