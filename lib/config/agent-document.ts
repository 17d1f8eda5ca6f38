import { LineCounter, parseDocument } from "yaml";
import type { AgentProblem } from "./agent-problems.ts";

/** What a file holds, or where it is no YAML. */
export type AgentDocument =
  | { readonly ok: true; readonly value: unknown }
  | { readonly ok: false; readonly problems: readonly AgentProblem[] };

/**
 * Reads YAML 1.2, of which JSON is a part. A key that stands twice in a mapping is a problem, since one of the two would be
 * lost. Values are not quoted here: nobody knows yet what they are.
 */
export function parseAgentDocument(text: string): AgentDocument {
  const lines = new LineCounter();
  const document = parseDocument(text, { lineCounter: lines, prettyErrors: false, uniqueKeys: true });
  const problems = document.errors.map(({ pos, code }) => {
    const { line, col } = lines.linePos(pos[0]);
    const what = code === "DUPLICATE_KEY" ? "has a key that stands there twice" : `is not valid YAML (${code})`;
    return { setting: "the configuration", text: `line ${line}, column ${col} ${what}. Correct it` };
  });
  if (problems.length > 0) return { ok: false, problems };
  try {
    return { ok: true, value: document.toJS() ?? {} };
  } catch {
    // Aliases that multiply without end are the one thing that fails only here.
    return {
      ok: false,
      problems: [{ setting: "the configuration", text: "has aliases that multiply too often. Write it out" }],
    };
  }
}
