import { swing } from "./gpus.ts";

/** A container of the made-up node. `gpus`: what it was given, as NVIDIA_VISIBLE_DEVICES. */
export type MadeUpContainer = {
  readonly id: string;
  readonly name: string;
  readonly pid: number;
  readonly gpus: string;
  readonly cores: number;
  readonly gib: number;
  /** its job has finished, and it still runs */
  readonly isFinished: boolean;
};

/** What docker-logs takes for the end of a job on this node. */
export const MARKER = "USER COMMAND END";

const container = (digit: string, rest: Omit<MadeUpContainer, "id" | "isFinished">): MadeUpContainer => ({
  id: digit.repeat(64),
  isFinished: false,
  ...rest,
});

export const CONTAINERS: readonly MadeUpContainer[] = [
  container("a", { name: "made-up-training", pid: 4101, gpus: "0", cores: 12, gib: 180 }),
  container("b", { name: "made-up-inference", pid: 4102, gpus: "1", cores: 4, gib: 48 }),
  container("c", { name: "made-up-notebooks", pid: 4103, gpus: "3", cores: 2, gib: 20 }),
  { ...container("d", { name: "made-up-finished", pid: 4104, gpus: "2", cores: 0.1, gib: 3 }), isFinished: true },
];

/** A process on a GPU that no container started, and the node's own. */
export const EXTERNAL_PID = 4900;
/** Of nvidia-smi while it hangs. */
export const HUNG_PID = 5001;

export const dockerPs = (): string => CONTAINERS.map(({ id, name }) => `${id} ${name}\n`).join("");

export function dockerInfo(): string {
  const count = CONTAINERS.length;
  return JSON.stringify({
    ServerVersion: "28.0-made-up",
    Driver: "overlay2",
    Containers: count + 1,
    ContainersRunning: count,
    ContainersPaused: 0,
    ContainersStopped: 1,
    Images: 17,
  });
}

/** Each container's row. Traffic and disk only grow. */
export function dockerStats(seconds: number): string {
  const rows = CONTAINERS.map(({ id, name, cores, gib }, index) => ({
    ID: id.slice(0, 12),
    Container: id.slice(0, 12),
    Name: name,
    CPUPerc: `${(100 * swing(seconds + 31 * index, 140, 0.5 * cores, cores)).toFixed(2)}%`,
    MemUsage: `${swing(seconds + 17 * index, 400, 0.7 * gib, gib).toFixed(2)}GiB / 251.5GiB`,
    MemPerc: `${((100 * gib) / 251.5).toFixed(2)}%`,
    NetIO: `${(40 + seconds * cores * 0.9).toFixed(1)}MB / ${(12 + seconds * cores * 0.3).toFixed(1)}MB`,
    BlockIO: `${(300 + seconds * cores * 2).toFixed(1)}MB / ${(90 + seconds * cores).toFixed(1)}MB`,
    PIDs: String(10 + 4 * index),
  }));
  return rows.map((row) => `${JSON.stringify(row)}\n`).join("");
}

export function dockerInspect({ id, name, pid, gpus }: MadeUpContainer, startedAt: string): string {
  const inspected = {
    Id: id,
    Name: `/${name}`,
    RestartCount: 0,
    State: { Status: "running", Running: true, Pid: pid, OOMKilled: false, StartedAt: startedAt },
    Config: { Image: "example.org/made-up:1", Labels: {}, Env: [`NVIDIA_VISIBLE_DEVICES=${gpus}`] },
    HostConfig: { Runtime: "nvidia", Devices: [], DeviceRequests: null },
  };
  return JSON.stringify([inspected]);
}

export const dockerLogs = ({ isFinished }: MadeUpContainer): string =>
  isFinished ? `made-up output\n${MARKER}\n` : "made-up output\n";

/** `state,rss,pid,ruid,euid,wchan:32,comm`; while nvidia-smi hangs it is in state D, and so is a process on a GPU. */
export function ps(isHanging: boolean): string {
  const rows = [
    "S 12000 1 0 0 ep_poll systemd",
    "S 90000 800 0 0 futex_wait dockerd",
    ...CONTAINERS.map(({ pid, gib }) => `S ${Math.round(gib * 1_048_576)} ${pid} 1000 1000 futex_wait python3`),
    `${isHanging ? "D" : "S"} 6400000 ${EXTERNAL_PID} 1000 1000 nv_wait_for_event python3`,
    ...(isHanging ? [`D 18000 ${HUNG_PID} 0 0 nvidia_ioctl nvidia-smi`] : []),
    "Z 0 5100 1000 1000 - sh",
  ];
  return rows.map((row) => `${row}\n`).join("");
}

/** Two connections of the containers, as iftop prints a second of them. */
export function iftop(seconds: number): string {
  const line = "-".repeat(92);
  const flow = (number: number, local: string, remote: string, out: number, received: number): string[] => [
    `${String(number).padStart(4)} ${local.padEnd(42)} =>${cells(out)}`,
    `     ${remote.padEnd(42)} <=${cells(received)}`,
  ];
  const [out, received] = [swing(seconds, 80, 200, 900), swing(seconds, 110, 100, 700)];
  return [
    "Listening on made-up0",
    "   # Host name (port/service if enabled)            last 2s   last 10s   last 40s cumulative",
    line,
    ...flow(1, "10.20.0.1:41001", "10.20.0.2:8031", out, received),
    ...flow(2, "10.20.0.1:41002", "10.20.0.3:9100", out / 9, received / 7),
    line,
    `Total send rate:                            ${cells(out * 1.11).slice(0, 30)}`,
    `Total receive rate:                         ${cells(received * 1.14).slice(0, 30)}`,
    `Total send and receive rate:                ${cells(out + received).slice(0, 30)}`,
    line,
    "",
  ].join("\n");
}

const cells = (kilobytes: number): string => `${kilobytes.toFixed(0)}KB`.padStart(10).repeat(4);

/** The connections of one process, as lsof prints them. */
export const lsof = (pid: number): string =>
  `COMMAND   PID USER   FD   TYPE DEVICE SIZE/OFF NODE NAME\n` +
  CONTAINERS.slice(0, 2)
    .filter((each) => each.pid === pid)
    .map((each) => {
      const port = each.pid === 4101 ? "41001->10.20.0.2:8031" : "41002->10.20.0.3:9100";
      return `python3 ${pid} 0    3u  IPv4  46048      0t0  TCP 10.20.0.1:${port} (ESTABLISHED)\n`;
    })
    .join("");
