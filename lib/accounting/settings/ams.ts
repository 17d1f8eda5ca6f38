import { readdirSync } from "node:fs";
import { join, resolve } from "node:path";
import type { z } from "zod";
import { type Raw, filled, filledOnly } from "../../shared/config-values.ts";
import { GridmeterError, errorText } from "../../shared/errors.ts";
import { readTextFile } from "../../shared/fs.ts";
import { LARGEST_PEM, NO_CERTIFICATE, type NamedPem, firstCertificate } from "../../shared/pem.ts";
import { LARGEST_TEXT, type LoadRequest, gathered } from "./load.ts";
import { configurationError, problemLines, readSettings } from "./problems.ts";
import { type SsmConfig, parseSsmConfig } from "./ssm-config.ts";
import { ABOUT, amsPlaceSettings, amsSettings } from "./table.ts";

/** All that sending to AMS takes. */
export type AmsSettings = {
  readonly place: {
    readonly host: string;
    readonly port: number;
    readonly authnPort: number;
    readonly project: string;
    readonly topic: string;
  };
  readonly certificate: NamedPem;
  readonly key: NamedPem;
  /** reads a token that was given; absent where the certificate is to get one */
  readonly token?: () => string;
  /** PEM texts of further authorities to trust */
  readonly authorities: readonly string[];
  /** ssmsend's queue, where its configuration was given */
  readonly source?: string;
  readonly warnings: readonly string[];
  /** about names in the environment and the env file, which a command that reads other settings says anyway */
  readonly nameWarnings: readonly string[];
};

type AmsRequest = LoadRequest & {
  /** values of options, by the name of the setting; each wins over everything else */
  readonly options?: Raw;
  /** path of ssmsend's configuration; whatever else says a value wins over it */
  readonly ssmConfig?: string | undefined;
};

const partial = amsSettings.partial();

/** Whether anything says that messages are to go to AMS. @throws GridmeterError as `loadAms` does of the env file */
export function namesAms(request: AmsRequest): boolean {
  const { merged } = gathered(request);
  return request.ssmConfig !== undefined || filled(merged["AMS_HOST"]) !== undefined;
}

/**
 * Reads the settings of sending to AMS, from options, environment, env file and ssmsend's configuration, and the files that they name.
 * @throws GridmeterError `config_invalid` with all that is wrong
 */
export function loadAms(request: AmsRequest): AmsSettings {
  const { options = {}, ssmConfig, directory = process.cwd() } = request;
  const { merged, names } = gathered(request);
  const empty = Object.entries(options).find(([, value]) => value !== undefined && value.trim() === "");
  if (empty !== undefined) {
    const option = ABOUT.get(empty[0])?.option ?? empty[0];
    throw new GridmeterError("usage", `${option} is empty. Nothing was sent. Give it a value, or leave it out.`);
  }
  const path = ssmConfig === undefined ? undefined : resolve(directory, ssmConfig);
  const ssm = path === undefined ? {} : parseSsmConfig(contents(path, "ssmsend's configuration (--ssm-config)"), path);
  // An empty value counts as not set, and lets what is below it count.
  const raw = { ...fromSsm(ssm), ...filledOnly(merged), ...filledOnly(options) };
  const { full, problems } = readSettings(amsSettings, partial, raw);
  const all = [...names.problems, ...problems];
  if (full === undefined || all.length > 0) throw configurationError([...all, ...names.unset], [], "nothing was sent");
  const { AMS_TOKEN_FILE: tokenFile, AMS_CA_FILE: caFile } = full;
  const own = (setting: string, file: string): NamedPem => {
    const name = `the file "${file}" (${setting})`;
    return { name, pem: contents(resolve(directory, file), name, LARGEST_PEM) };
  };
  const trusted = authoritiesOf(ssm.capath);
  return {
    place: placeOf(full),
    certificate: own("AMS_CERTIFICATE", full.AMS_CERTIFICATE),
    key: own("AMS_KEY", full.AMS_KEY),
    ...tokenOf(tokenFile === undefined ? undefined : resolve(directory, tokenFile), ssm.token),
    authorities: [...(caFile === undefined ? [] : [authority(own("AMS_CA_FILE", caFile))]), ...trusted.pems],
    ...(ssm.source === undefined ? {} : { source: ssm.source }),
    warnings: trusted.warnings,
    nameWarnings: problemLines([...names.unset, ...names.warnings], []),
  };
}

/** Where AMS is, for a function, which has certificate and key another way. @throws GridmeterError `config_invalid` */
export function amsPlace(env: Raw): AmsSettings["place"] {
  const { full, problems } = readSettings(amsPlaceSettings, amsPlaceSettings.partial(), env);
  if (full === undefined) throw configurationError(problems, [], "nothing was sent");
  return placeOf(full);
}

function placeOf(read: z.output<typeof amsPlaceSettings>): AmsSettings["place"] {
  return {
    host: read.AMS_HOST,
    port: read.AMS_PORT,
    authnPort: read.AMS_AUTHN_PORT,
    project: read.AMS_PROJECT,
    topic: read.AMS_TOPIC,
  };
}

function fromSsm({ host, project, topic, certificate, key }: SsmConfig): Raw {
  return filledOnly({
    AMS_HOST: host,
    AMS_PROJECT: project,
    AMS_TOPIC: topic,
    AMS_CERTIFICATE: certificate,
    AMS_KEY: key,
  });
}

function tokenOf(file: string | undefined, given: string | undefined): Pick<AmsSettings, "token"> {
  if (file === undefined) return given === undefined ? {} : { token: () => given };
  const name = `the file "${file}" (AMS_TOKEN_FILE)`;
  // Read now, so that a wrong path is known before anything is sent, and again when a token is needed: it may have been renewed.
  const token = (): string => {
    const text = contents(file, name).trim();
    if (/^[\x21-\x7E]+$/.test(text)) return text;
    throw invalid(name, "holds no token on one line. Put the token there, or leave the setting out");
  };
  token();
  return { token };
}

function authority({ name, pem }: NamedPem): string {
  let found: unknown;
  try {
    found = firstCertificate(pem);
  } catch (thrown) {
    throw invalid(name, `cannot be read (${errorText(thrown)}). Give it in PEM form`);
  }
  if (found === undefined) throw invalid(name, NO_CERTIFICATE);
  return pem;
}

/** The authorities in a folder as grid sites have it: *.pem, and *.0, which are often links to them. Bad ones are named. */
function authoritiesOf(capath: string | undefined): {
  readonly pems: readonly string[];
  readonly warnings: readonly string[];
} {
  if (capath === undefined) return { pems: [], warnings: [] };
  const pems = new Set<string>();
  const warnings: string[] = [];
  let files: readonly string[];
  try {
    files = readdirSync(capath)
      .filter((file) => /\.(?:pem|0)$/.test(file))
      .toSorted();
  } catch (thrown) {
    throw invalid(
      `the folder "${capath}" (capath)`,
      `cannot be read (${errorText(thrown)}). Name a readable folder, or leave capath out`,
    );
  }
  for (const file of files) {
    const name = `the file "${join(capath, file)}" (capath)`;
    try {
      pems.add(authority({ name, pem: readTextFile(join(capath, file), LARGEST_PEM) }));
    } catch (thrown) {
      warnings.push(`${name} is passed over: ${errorText(thrown)}`);
    }
  }
  return { pems: [...pems], warnings };
}

function contents(path: string, name: string, most = LARGEST_TEXT): string {
  try {
    return readTextFile(path, most);
  } catch (thrown) {
    const named = name.includes(path) ? name : `${name} "${path}"`;
    throw invalid(named, `cannot be read (${errorText(thrown)}). Write the path of a readable file`);
  }
}

function invalid(name: string, text: string): GridmeterError {
  return new GridmeterError(
    "config_invalid",
    `${name.slice(0, 1).toUpperCase()}${name.slice(1)} ${text}. Nothing was sent.`,
  );
}
