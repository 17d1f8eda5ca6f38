import { Agent } from "node:https";
import { rootCertificates } from "node:tls";
import { GridmeterError, errorText } from "../../shared/errors.ts";
import { readTextFile } from "../../shared/fs.ts";
import { LARGEST_PEM, NO_CERTIFICATE, firstCertificate, readPrivateKey, validityFault } from "../../shared/pem.ts";

/** PEM files of a TLS connection: a further authority to trust, and the certificate and key that this program shows. */
export type CertificateFiles = {
  readonly caFile?: string;
  readonly clientCertFile?: string;
  readonly clientKeyFile?: string;
};

/** What is wrong with a file, and what to do. */
type CertificateProblem = { readonly setting: string; readonly path: string; readonly text: string };

const CA = "PROMETHEUS_CA_FILE";
const CERT = "PROMETHEUS_CLIENT_CERT_FILE";
const KEY = "PROMETHEUS_CLIENT_KEY_FILE";

type Pem = { readonly ca?: string; readonly cert?: string; readonly key?: string };

/**
 * The agent for https, or undefined where no file is set (Node's own agent and authorities serve then). The files are read now.
 * Throws `config_invalid`, also for a client certificate without its key, one of another key, and one that has expired.
 */
export function tlsAgent(files: CertificateFiles): Agent | undefined {
  const { pem, problems } = readCertificates(files);
  const [problem] = problems;
  if (problem !== undefined) {
    throw new GridmeterError(
      "config_invalid",
      `The file "${problem.path}" (${problem.setting}) ${problem.text}. Nothing was asked or published.`,
    );
  }
  const { ca, cert, key } = pem;
  if (ca === undefined && cert === undefined) return undefined;
  return new Agent({
    keepAlive: true,
    ...(ca === undefined ? {} : { ca: [...rootCertificates, ca] }),
    ...(cert === undefined || key === undefined ? {} : { cert, key }),
  });
}

/** All that is wrong with the files now; nothing is thrown. */
export function certificateProblems(files: CertificateFiles): readonly CertificateProblem[] {
  return readCertificates(files).problems;
}

function readCertificates({ caFile, clientCertFile, clientKeyFile }: CertificateFiles): {
  readonly pem: Pem;
  readonly problems: readonly CertificateProblem[];
} {
  const problems: CertificateProblem[] = [];
  const report = (setting: string, path: string, text: string): undefined =>
    void problems.push({ setting, path, text });
  const read = <T>(setting: string, path: string | undefined, parse: (pem: string) => T | string): T | undefined => {
    if (path === undefined) return undefined;
    try {
      const parsed = parse(readTextFile(path, LARGEST_PEM));
      return typeof parsed === "string" ? report(setting, path, parsed) : parsed;
    } catch (thrown) {
      const why = errorText(thrown).startsWith("EISDIR") ? "it is a directory" : errorText(thrown);
      return report(setting, path, `cannot be read (${why}). Write the path of a readable file in PEM form`);
    }
  };

  const ca = read(CA, caFile, (pem) => (firstCertificate(pem) === undefined ? NO_CERTIFICATE : { pem }));
  const cert = read(CERT, clientCertFile, (pem) => {
    const first = firstCertificate(pem);
    return first === undefined ? NO_CERTIFICATE : (validityFault(first, Date.now()) ?? { pem, first });
  });
  const key = read(KEY, clientKeyFile, readPrivateKey);
  if (clientCertFile !== undefined && clientKeyFile === undefined)
    report(CERT, clientCertFile, `needs its private key. Name the key's file in ${KEY}`);
  if (clientKeyFile !== undefined && clientCertFile === undefined)
    report(KEY, clientKeyFile, `needs its certificate. Name the certificate's file in ${CERT}`);
  if (cert !== undefined && key !== undefined && clientKeyFile !== undefined && !cert.first.checkPrivateKey(key.key))
    report(
      KEY,
      clientKeyFile,
      `holds another key than that of the certificate "${clientCertFile}" (${CERT}). Give the pair`,
    );

  return {
    pem: {
      ...(ca === undefined ? {} : { ca: ca.pem }),
      ...(cert === undefined ? {} : { cert: cert.pem }),
      ...(key === undefined ? {} : { key: key.pem }),
    },
    problems,
  };
}
