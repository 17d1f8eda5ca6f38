import type { Command } from "../../agent/types.ts";

type Argv = Command["argv"];

const change = ([program, ...rest]: Argv, one: (argument: string) => string): Argv => [one(program), ...rest.map(one)];

/** Puts values into the places of a command that are written `{name}`; places without a value stay as they are. */
export const fillIn = (argv: Argv, values: Readonly<Record<string, string>>): Argv =>
  change(argv, (argument) => argument.replaceAll(/\{([a-z]+)\}/g, (place, name: string) => values[name] ?? place));

/** Makes a template of a command, by putting a place where it has this very argument. */
export const template = (argv: Argv, argument: string, place: string): Argv =>
  change(argv, (one) => (one === argument ? place : one));

/** Whether a command has the place `{name}`. */
export const hasPlace = (argv: Argv, name: string): boolean => argv.some((argument) => argument.includes(`{${name}}`));
