import { readFile } from "node:fs/promises";
import { dirname } from "node:path";
import type { Plugin } from "esbuild";

/** Packages of which a function needs little or nothing, and what stands in their place. */
const INSTEAD: Readonly<Record<string, string>> = {
  // Lambda gives a function its role's credentials in the environment; single sign-on, profiles and the rest of the
  // chain are for people's own machines (`serverless invoke local` puts what it finds there into the environment too).
  "@aws-sdk/credential-provider-node": 'export { fromEnv as defaultProvider } from "@aws-sdk/credential-provider-env";',
  // Gauges and a registry are all that the functions export; the package's index loads default metrics, histograms and more.
  "prom-client":
    'exports.Registry = require("prom-client/lib/registry"); exports.Gauge = require("prom-client/lib/gauge");',
  // axios loads it for uploads of forms, and with it a table of all media types.
  "form-data": "export default class FormData {}",
};

const LOCALES = /[\\/]zod[\\/]v4[\\/]locales[\\/]index\.js$/;
const SSM_ERRORS = /[\\/]client-ssm[\\/]dist-es[\\/]models[\\/]errors\.js$/;
const OWN = /[\\/](?:lib|functions)[\\/].*\.ts$/;

const SSM_ERROR = `import { SSMServiceException } from "./SSMServiceException.js";
const named = (name) => class extends SSMServiceException {
  constructor(options) { super({ name, $fault: "client", ...options }); }
};`;

/** Leaves out of a function's bundle what no function runs, which is more than half of it. */
export const lean: Plugin = {
  name: "lean",
  setup(bundler) {
    const filter = new RegExp(`^(?:${Object.keys(INSTEAD).join("|")})$`);
    bundler.onResolve({ filter }, ({ path, resolveDir }) => ({ path, namespace: "lean", pluginData: resolveDir }));
    bundler.onLoad({ filter: /.*/, namespace: "lean" }, ({ path, pluginData }) => ({
      contents: INSTEAD[path] ?? "",
      resolveDir: String(pluginData),
    }));
    // Error messages in forty languages.
    bundler.onLoad({ filter: LOCALES }, ({ path }) => ({
      contents: 'export { default as en } from "./en.js";',
      resolveDir: dirname(path),
    }));
    // A hundred and fifty classes that differ in their names.
    bundler.onLoad({ filter: SSM_ERRORS }, async ({ path }) => {
      const names = [...(await readFile(path, "utf8")).matchAll(/^export class (\w+) /gm)].map(([, name]) => name);
      const classes = names.map((name) => `export const ${name} = named("${name}");`);
      return { contents: [SSM_ERROR, ...classes].join("\n"), resolveDir: dirname(path) };
    });
    // Of a namespace the bundler keeps what is used; of an object that holds everything it must keep all.
    bundler.onLoad({ filter: OWN }, async ({ path }) => ({
      contents: (await readFile(path, "utf8")).replace('import { z } from "zod";', 'import * as z from "zod";'),
      loader: "ts",
    }));
  },
};
