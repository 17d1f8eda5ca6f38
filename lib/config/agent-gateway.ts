import { accessSync, constants, statSync } from "node:fs";
import { resolve } from "node:path";
import { errorText } from "../errors.ts";
import type { AgentProblem } from "./agent-problems.ts";
import { isMapping } from "./agent-values.ts";

const FILES = ["passwordFile", "bearerTokenFile", "caFile"] as const;

/**
 * What is wrong about the section `pushgateway` as a whole: files that cannot be read, credentials of two kinds, or half of
 * them. Looks at what was written, so that it is said together with all else.
 */
export function gatewayProblems(written: unknown, directory: string): AgentProblem[] {
  if (!isMapping(written)) return [];
  const has = (key: string): boolean => written[key] !== undefined && written[key] !== null;
  const tell = (key: string, text: string): AgentProblem => ({ setting: `pushgateway.${key}`, text });
  const inUrl = typeof written["url"] === "string" && hasCredentials(written["url"]);
  const kinds = [
    ...(inUrl ? ["a user in url"] : []),
    ...(has("username") || has("passwordFile") ? ["username and passwordFile"] : []),
    ...(has("bearerTokenFile") ? ["bearerTokenFile"] : []),
  ];
  return [
    ...(has("url") || Object.keys(written).length === 0
      ? []
      : [tell("url", "is not set, so nothing could be pushed. Write for example http://pushgateway:9091")]),
    ...(kinds.length > 1
      ? [{ setting: "pushgateway", text: `has ${kinds.join(" and ")}, of which only one can be sent. Leave one` }]
      : []),
    ...(has("username") && !has("passwordFile")
      ? [tell("passwordFile", "is not set, but username is. Write the path of the file with the password")]
      : []),
    ...(has("passwordFile") && !has("username")
      ? [tell("username", "is not set, but passwordFile is. Write whose password it is")]
      : []),
    ...FILES.flatMap((key) => {
      const path = written[key];
      const why = typeof path === "string" ? unreadable(resolve(directory, path.trim())) : undefined;
      return why === undefined ? [] : [{ ...tell(key, why), quoted: JSON.stringify(path) }];
    }),
  ];
}

type Gateway = {
  readonly url?: string | undefined;
  readonly passwordFile?: string | undefined;
  readonly bearerTokenFile?: string | undefined;
  readonly caFile?: string | undefined;
};

/** The section with absolute paths; undefined without a URL. */
export function rootedGateway<T extends Gateway>(gateway: T | undefined, directory: string) {
  if (gateway?.url === undefined) return undefined;
  const at = (path: string | undefined): string | undefined =>
    path === undefined ? undefined : resolve(directory, path);
  return {
    ...gateway,
    url: gateway.url,
    passwordFile: at(gateway.passwordFile),
    bearerTokenFile: at(gateway.bearerTokenFile),
    caFile: at(gateway.caFile),
  };
}

function hasCredentials(text: string): boolean {
  const url = URL.canParse(text) ? new URL(text) : undefined;
  return url !== undefined && (url.username !== "" || url.password !== "");
}

function unreadable(path: string): string | undefined {
  try {
    accessSync(path, constants.R_OK);
    return statSync(path).isDirectory() ? "is a directory. Write the path of a readable file" : undefined;
  } catch (error) {
    return `cannot be read (${errorText(error)}). Write the path of a readable file`;
  }
}
