// ssmsend's configuration file (sender.cfg), as Python's configparser reads it. The ini packages of npm know no `key: value`, which is
// how that file is written.
import { GridmeterError } from "../../shared/errors.ts";

/** What of ssmsend's configuration counts for sending to AMS; each is absent where the file does not say it. */
export type SsmConfig = {
  readonly host?: string;
  readonly certificate?: string;
  readonly key?: string;
  readonly capath?: string;
  readonly project?: string;
  readonly topic?: string;
  readonly token?: string;
  /** its queue, as --source is written */
  readonly source?: string;
};

/** By `section.option`, both as configparser compares them. */
type Options = ReadonlyMap<string, string>;

/**
 * Reads the text of ssmsend's configuration.
 * @param path for errors
 * @throws GridmeterError `config_invalid` for what cannot be read, and for what this program does not do: STOMP, encryption
 */
export function parseSsmConfig(text: string, path: string): SsmConfig {
  const invalid = (what: string): GridmeterError =>
    new GridmeterError("config_invalid", `ssmsend's configuration ${path} ${what}. Nothing was sent.`);
  const options = readOptions(text, invalid);
  const value = (name: string): string | undefined => {
    const found = options.get(name)?.trim();
    if (found?.includes("%(") === true)
      throw invalid(`has ${JSON.stringify(found)} in ${name}, and %(...) is not expanded here. Write the value itself`);
    return found === undefined || found === "" ? undefined : found.replaceAll("%%", "%");
  };
  const protocol = value("sender.protocol");
  if (protocol === undefined)
    throw invalid("has no protocol in [sender], which ssmsend takes for STOMP. Write protocol: AMS");
  if (protocol === "STOMP")
    throw invalid(
      "has protocol: STOMP in [sender], and gridmeter sends to AMS only. Write protocol: AMS and the host of AMS",
    );
  if (protocol !== "AMS") throw invalid(`has protocol: ${JSON.stringify(protocol)} in [sender]. Write protocol: AMS`);
  const serverCert = value("certificates.server_cert");
  if (serverCert !== undefined)
    throw invalid(
      `has server_cert: ${JSON.stringify(serverCert)} in [certificates], and gridmeter does not encrypt messages beyond TLS. Leave it out, or let ssmsend send`,
    );
  return {
    ...given("host", value("broker.host")),
    ...given("certificate", value("certificates.certificate")),
    ...given("key", value("certificates.key")),
    ...given("capath", value("certificates.capath")),
    ...given("project", value("messaging.ams_project")),
    ...given("topic", value("messaging.destination")),
    ...given("token", value("messaging.token")),
    ...given("source", sourceOf(value("messaging.path"), value("messaging.path_type"), invalid)),
  };
}

function given<K extends keyof SsmConfig>(name: K, value: string | undefined): Pick<SsmConfig, K> | object {
  return value === undefined ? {} : { [name]: value };
}

function sourceOf(
  path: string | undefined,
  type: string | undefined,
  invalid: (what: string) => GridmeterError,
): string | undefined {
  if (path === undefined) return undefined;
  switch (type) {
    case undefined:
    case "dirq":
      return `dirq:${path}`;
    case "directory":
      return `dir:${path}`;
    default:
      throw invalid(`has path_type: ${JSON.stringify(type)} in [messaging]. Write dirq or directory`);
  }
}

function readOptions(text: string, invalid: (what: string) => GridmeterError): Options {
  const options = new Map<string, string>();
  let section: string | undefined;
  let last: string | undefined;
  for (const [index, line] of text.split(/\r?\n/).entries()) {
    if (/^\s*([#;]|$)/.test(line)) continue;
    const [, name] = /^\[([^\]]+)\]/.exec(line) ?? [];
    const [, option, value] = /^([^\s:=][^:=]*)[:=](.*)$/.exec(line) ?? [];
    if (name !== undefined) {
      section = name;
      last = undefined;
    } else if (/^\s/.test(line) && last !== undefined) {
      options.set(last, `${options.get(last) ?? ""}\n${line.trim()}`);
    } else if (section !== undefined && option !== undefined && value !== undefined) {
      last = `${section}.${option.trim().toLowerCase()}`;
      options.set(last, value.trim());
    } else {
      throw invalid(`cannot be read: line ${index + 1} is neither [section] nor option: value`);
    }
  }
  return options;
}
