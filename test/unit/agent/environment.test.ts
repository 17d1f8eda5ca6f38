import { expect, test } from "vitest";
import { commandEnvironment } from "../../../lib/agent/command/start.ts";

test("a command inherits where things are, and no secrets", () => {
  const agent = {
    PATH: "/opt/bin",
    DOCKER_HOST: "unix:///run/docker.sock",
    LC_ALL: "de_DE.UTF-8",
    LANG: "de_DE.UTF-8",
    PUSHGATEWAY_PASSWORD: "x",
    AWS_SECRET_ACCESS_KEY: "x",
    HOME: undefined,
  };
  expect(commandEnvironment("mark", agent)).toStrictEqual({
    PATH: "/opt/bin",
    DOCKER_HOST: "unix:///run/docker.sock",
    LC_ALL: "C",
    GRIDMETER_RUN: "mark",
  });
});

test("what the configuration adds displaces what is inherited, but neither the language nor the mark", () => {
  const more = { PATH: "/mine", X: "1", LC_ALL: "fr_FR", GRIDMETER_RUN: "theirs" };
  expect(commandEnvironment("mark", { PATH: "/opt/bin" }, more)).toStrictEqual({
    PATH: "/mine",
    X: "1",
    LC_ALL: "C",
    GRIDMETER_RUN: "mark",
  });
});

test("an agent without PATH looks in the usual places", () => {
  expect(commandEnvironment("mark", {}).PATH).toContain("/usr/bin:");
  expect(commandEnvironment("mark", { PATH: "" }).PATH).toContain("/usr/bin:");
});
