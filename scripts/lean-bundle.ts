import { readFile } from "node:fs/promises";
import { dirname } from "node:path";
import type { OnLoadArgs, OnLoadResult, Plugin } from "esbuild";

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
  // follow-redirects would print with it, where DEBUG is set.
  debug: "module.exports = () => () => undefined;",
};

const LOCALES = /[\\/]zod[\\/]v4[\\/]locales[\\/]index\.js$/;
const SSM_ERRORS = /[\\/]client-ssm[\\/]dist-es[\\/]models[\\/]errors\.js$/;
const OWN = /[\\/](?:lib|functions)[\\/].*\.ts$/;

const SSM_ERROR = `import { SSMServiceException } from "./SSMServiceException.js";
const named = (name) => class extends SSMServiceException {
  constructor(options) { super({ name, $fault: "client", ...options }); }
};`;

/** What the node agent, which lives long in little memory, loads and never uses: axios' other ways to send and its forms. */
const INSTEAD_OF_AXIOS = {
  formData: "export default class FormData {}",
  fetch: "export const getFetch = () => undefined; export default undefined;",
};

const FETCH = /[\\/]axios[\\/]lib[\\/]adapters[\\/]fetch\.js$/;
const AXIOS_UTILS = /[\\/]axios[\\/]lib[\\/]utils\.js$/;
const COMMANDS = /[\\/](?:lib|bin)[\\/].*\.ts$/;

/** Leaves out of the command line what none of its commands runs: it would be loaded with the agent, and stay. */
export const leanCommands: Plugin = {
  name: "lean-commands",
  setup(bundler) {
    bundler.onResolve({ filter: /^form-data$/ }, ({ path }) => ({ path, namespace: "lean" }));
    bundler.onLoad({ filter: /.*/, namespace: "lean" }, () => ({ contents: INSTEAD_OF_AXIOS.formData }));
    bundler.onLoad({ filter: FETCH }, () => ({ contents: INSTEAD_OF_AXIOS.fetch }));
    // Looking whether there is a global FormData makes Node load its whole fetch.
    bundler.onLoad({ filter: AXIOS_UTILS }, async ({ path }) => ({
      contents: (await readFile(path, "utf8")).replaceAll("G.FormData", "undefined"),
    }));
    bundler.onLoad({ filter: LOCALES }, onlyEnglish);
    bundler.onLoad({ filter: COMMANDS }, namespaceOfZod);
  },
};

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
    // Requests go through Node's own client, as without this.
    bundler.onLoad({ filter: FETCH }, () => ({ contents: INSTEAD_OF_AXIOS.fetch }));
    bundler.onLoad({ filter: LOCALES }, onlyEnglish);
    // A hundred and fifty classes that differ in their names.
    bundler.onLoad({ filter: SSM_ERRORS }, async ({ path }) => {
      const names = [...(await readFile(path, "utf8")).matchAll(/^export class (\w+) /gm)].map(([, name]) => name);
      const classes = names.map((name) => `export const ${name} = named("${name}");`);
      return { contents: [SSM_ERROR, ...classes].join("\n"), resolveDir: dirname(path) };
    });
    bundler.onLoad({ filter: OWN }, namespaceOfZod);
  },
};

/** zod has error messages in forty languages. */
function onlyEnglish({ path }: OnLoadArgs): OnLoadResult {
  return { contents: 'export { default as en } from "./en.js";', resolveDir: dirname(path) };
}

/** Of a namespace the bundler keeps what is used; of an object that holds everything it must keep all. */
async function namespaceOfZod({ path }: OnLoadArgs): Promise<OnLoadResult> {
  const text = await readFile(path, "utf8");
  return { contents: text.replace('import { z } from "zod";', 'import * as z from "zod";'), loader: "ts" };
}
