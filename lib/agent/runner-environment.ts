/**
 * What a command sees of the agent's environment: where programs and the daemons of docker, containerd and NVIDIA are, and
 * nothing else, least of all the passwords of the Pushgateway or of S3.
 */
const INHERITED = [
  "PATH",
  "HOME",
  "USER",
  "LOGNAME",
  "TMPDIR",
  "TZ",
  "XDG_RUNTIME_DIR",
  "DBUS_SYSTEM_BUS_ADDRESS",
  "LD_LIBRARY_PATH",
  "DOCKER_HOST",
  "DOCKER_CONTEXT",
  "DOCKER_CONFIG",
  "DOCKER_TLS_VERIFY",
  "DOCKER_CERT_PATH",
  "CONTAINER_RUNTIME_ENDPOINT",
  "IMAGE_SERVICE_ENDPOINT",
] as const;

const USUAL_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/** The variable by which the processes of a run are known again, whatever group or session they went into. */
export const RUN_VARIABLE = "GRIDMETER_RUN";

/**
 * The environment of a command. LC_ALL=C: numbers with a point, messages in English, whatever the node is set to.
 * `more` comes on top of what is inherited, but never displaces LC_ALL or the mark of the run.
 */
export function commandEnvironment(
  run: string,
  inherited: Readonly<Record<string, string | undefined>>,
  more: Readonly<Record<string, string>> = {},
): Readonly<Record<string, string>> & { readonly PATH: string } {
  const kept = INHERITED.flatMap((name) => {
    const value = inherited[name];
    return value === undefined ? [] : [[name, value] as const];
  });
  const chosen: Record<string, string> = { ...Object.fromEntries(kept), ...more };
  return { ...chosen, PATH: chosen["PATH"] || USUAL_PATH, LC_ALL: "C", [RUN_VARIABLE]: run };
}
