import { quote } from "../apel/problem.ts";
import { valueProblem } from "../apel/text.ts";
import { bad, good, type Parsed } from "./parsed.ts";

/** A longer text is refused for its length, characters. */
const LONGEST = 255;

/** A text that may stand in an APEL message, at most `maxLength` characters. */
export function apelText(maxLength: number): (text: string) => Parsed<string> {
  return (text) => {
    // Docker hands an env file's ${NAME} on as it is, and so does Kubernetes $(NAME): APEL would take it for a new name.
    if (/\$\{[^}]*\}|\$\([^)]*\)/.test(text.slice(0, LONGEST))) {
      return bad(
        "holds a variable that nothing has expanded: only ${NAME} and ${NAME:-default} in an env file are. Write the value itself",
      );
    }
    const problem = valueProblem("value", text, maxLength);
    if (problem === undefined) return good(text);
    // The list of problems quotes the value itself; once is enough.
    return bad(problem.replace(`value ${quote(text)}`, "").replace(/^:? +/, ""));
  };
}
