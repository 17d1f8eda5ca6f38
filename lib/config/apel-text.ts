import { quote } from "../apel/problem.ts";
import { valueProblem } from "../apel/text.ts";
import { bad, good, type Parsed } from "./parsed.ts";

/** A text that may stand in an APEL message, at most `maxLength` characters. */
export function apelText(maxLength: number): (text: string) => Parsed<string> {
  return (text) => {
    const problem = valueProblem("value", text, maxLength);
    if (problem === undefined) return good(text);
    // The list of problems quotes the value itself; once is enough.
    return bad(problem.replace(`value ${quote(text)}`, "").replace(/^:? +/, ""));
  };
}
