import { assert, constantFrom, dictionary, oneof, property, string, stringMatching } from "fast-check";
import { describe, expect, test } from "vitest";
import { GridmeterError } from "../../../lib/shared/errors.ts";
import { groupPath } from "../../../lib/shared/pushgateway.ts";

/** Reads a path as the Pushgateway does: pairs of label and value, base64 in either alphabet, padding or none. */
function read(path: string): Record<string, string> {
  const [, metrics, ...parts] = path.split("/");
  expect(metrics).toBe("metrics");
  const labels: Record<string, string> = {};
  for (let index = 0; index < parts.length; index += 2) {
    const [name = "", encoding] = parts[index]!.split("@");
    const value = parts[index + 1]!;
    labels[name] =
      encoding === "base64"
        ? Buffer.from(value.replaceAll("=", ""), "base64url").toString("utf8")
        : decodeURIComponent(value);
  }
  return labels;
}

describe("the path of a group", () => {
  test.each([
    [{ job: "gridmeter_agent" }, "/metrics/job/gridmeter_agent"],
    [
      { job: "a", probe: "docker-ps", instance: "node1.example.org" },
      "/metrics/job/a/instance/node1.example.org/probe/docker-ps",
    ],
    [{ job: "a/b" }, "/metrics/job@base64/YS9i"],
    [{ job: "a", probe: "" }, "/metrics/job/a/probe@base64/="],
    [{ job: "a", instance: "node:9100" }, "/metrics/job/a/instance@base64/bm9kZTo5MTAw"],
    [{ job: "a", instance: ".." }, "/metrics/job/a/instance@base64/Li4"],
    [{ job: "a", instance: "Kölner Knoten ☃" }, "/metrics/job/a/instance@base64/S8O2bG5lciBLbm90ZW4g4piD"],
  ])("%o", (grouping, path) => {
    expect(groupPath(grouping)).toBe(path);
  });

  test("any labels come out as they went in, whatever a server or proxy does to dots, slashes and percent signs", () => {
    const value = oneof(
      string(),
      string({ unit: "grapheme" }),
      constantFrom("", ".", "..", "/", "//", "%2F", "@base64", "=", "+"),
    );
    const labels = dictionary(stringMatching(/^[a-zA-Z][a-zA-Z0-9_]{0,9}$/), value, {
      maxKeys: 4,
      noNullPrototype: true,
    });
    assert(
      property(labels, value, (others, job) => {
        const { job: _job, ...rest } = others;
        const grouping = { job: job === "" ? "job" : job, ...rest };
        const path = groupPath(grouping);
        // As it passes through a URL parser.
        expect(new URL(`http://gateway${path}`).pathname).toBe(path);
        expect(read(path)).toEqual(grouping);
      }),
      { numRuns: 500 },
    );
  });

  test.each([
    [{}, "there is no job"],
    [{ job: "" }, "there is no job"],
    [{ job: "a", "not-a-label": "b" }, '"not-a-label" is no label name'],
    [{ job: "a", __name__: "b" }, '"__name__" is no label name'],
    [{ job: "a", "": "b" }, '"" is no label name'],
  ])("%o is refused before anything is sent", (grouping, text) => {
    expect(() => groupPath(grouping)).toThrow(GridmeterError);
    expect(() => groupPath(grouping)).toThrow(text);
  });
});
