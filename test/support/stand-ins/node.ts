// What a made-up node has: containers with processes and connections, and GPUs, as each tool would print them.
import { createHash } from "node:crypto";

/** A container of the node; all that tools say about it follows from its number. */
export type StandInContainer = {
  readonly id: string;
  readonly name: string;
  /** its first process on the host */
  readonly pid: number;
  /** the port of its one connection, from 10.9.0.1 to 10.9.0.2:80 */
  readonly port: number;
  /** the GPU that it was given and uses, by its index */
  readonly gpu: number | undefined;
};

export function containersOf(count: number, gpus: number): StandInContainer[] {
  return Array.from({ length: count }, (_, number) => ({
    id: createHash("sha256").update(`container ${number}`).digest("hex"),
    name: `k8s_app_job-${number}_lab_aaaaaaaa-0000-4000-8000-${String(number).padStart(12, "0")}_0`,
    pid: 100_000 + number,
    port: 20_000 + number,
    gpu: gpus === 0 ? undefined : number % gpus,
  }));
}

export const dockerInfo = (count: number): string =>
  JSON.stringify({ ID: "AAAA", Containers: count, ContainersRunning: count, Images: 3, ServerVersion: "28.2.2" });

export const dockerStats = (containers: readonly StandInContainer[]): string =>
  lines(
    containers.map(({ id, name }, number) =>
      JSON.stringify({
        BlockIO: "1.44MB / 0B",
        CPUPerc: `${number % 100}.50%`,
        Container: id.slice(0, 12),
        ID: id.slice(0, 12),
        MemPerc: "25.00%",
        MemUsage: "1.5GiB / 6GiB",
        Name: name,
        NetIO: "12.3kB / 578B",
        PIDs: "21",
      }),
    ),
  );

export const dockerInspect = ({ id, name, pid, gpu }: StandInContainer): string =>
  JSON.stringify([
    {
      Id: id,
      Name: `/${name}`,
      RestartCount: 0,
      State: { Status: "running", Running: true, OOMKilled: false, Pid: pid, StartedAt: "2026-03-05T06:00:50.021Z" },
      Config: {
        Image: "registry.example/lab/train:7",
        Env: [
          `PAI_JOB_NAME=ann~${name.split("_")[2]}`,
          "PAI_USER_NAME=ann",
          "PAI_CURRENT_TASK_ROLE_NAME=worker",
          "PAI_TASK_INDEX=0",
          "PAI_VIRTUAL_CLUSTER=gold",
          ...(gpu === undefined ? [] : [`NVIDIA_VISIBLE_DEVICES=${gpu}`]),
        ],
        Labels: {},
      },
      HostConfig: { Runtime: "runc", Devices: null, DeviceRequests: null },
    },
  ]);

export const nvidiaSmi = (count: number, containers: readonly StandInContainer[]): string =>
  `<?xml version="1.0" ?>
<!DOCTYPE nvidia_smi_log SYSTEM "nvsmi_device_v12.dtd">
<nvidia_smi_log>
	<driver_version>550.54.15</driver_version>
	<cuda_version>12.4</cuda_version>
	<attached_gpus>${count}</attached_gpus>
${Array.from({ length: count }, (_, index) => nvidiaGpu(index, containers)).join("")}</nvidia_smi_log>
`;

const nvidiaGpu = (
  index: number,
  containers: readonly StandInContainer[],
): string => `	<gpu id="00000000:0${index}:00.0">
		<product_name>NVIDIA Z100</product_name>
		<uuid>GPU-00000000-0000-0000-0000-${String(index).padStart(12, "0")}</uuid>
		<minor_number>${index}</minor_number>
		<performance_state>P0</performance_state>
		<fb_memory_usage><total>81920 MiB</total><reserved>600 MiB</reserved><used>40960 MiB</used></fb_memory_usage>
		<utilization><gpu_util>${90 - index} %</gpu_util><memory_util>40 %</memory_util></utilization>
		<ecc_mode><current_ecc>Enabled</current_ecc></ecc_mode>
		<ecc_errors>
			<volatile>
				<sram_correctable>0</sram_correctable>
				<sram_uncorrectable>0</sram_uncorrectable>
				<dram_correctable>0</dram_correctable>
				<dram_uncorrectable>0</dram_uncorrectable>
			</volatile>
		</ecc_errors>
		<temperature><gpu_temp>6${index % 10} C</gpu_temp></temperature>
		<gpu_power_readings>
			<power_draw>400.50 W</power_draw>
			<current_power_limit>700.00 W</current_power_limit>
		</gpu_power_readings>
		<processes>
${containers
  .filter(({ gpu }) => gpu === index)
  .map(
    ({ pid }) =>
      `			<process_info>\n				<pid>${pid}</pid>\n				<type>C</type>\n				<process_name>python3</process_name>\n				<used_memory>1024 MiB</used_memory>\n			</process_info>\n`,
  )
  .join("")}		</processes>
	</gpu>
`;

export const amdSmi = (count: number): string =>
  JSON.stringify({
    gpu_data: Array.from({ length: count }, (_, gpu) => ({
      gpu,
      asic: { market_name: "AMD Instinct MI300X", asic_serial: `0x7c0000000000000${gpu}` },
      bus: { bdf: `0000:0${gpu}:00.0` },
      usage: { gfx_activity: { value: 50 + gpu, unit: "%" } },
      power: { socket_power: { value: 140, unit: "W" } },
      mem_usage: { total_vram: { value: 196_592, unit: "MB" }, used_vram: { value: 283, unit: "MB" } },
    })),
  });

export const rocmSmi = (count: number): string =>
  JSON.stringify(
    Object.fromEntries([
      ...Array.from({ length: count }, (_, index) => [
        `card${index}`,
        {
          "Unique ID": `0x7c0000000000000${index}`,
          "Temperature (Sensor edge) (C)": "45.0",
          "Average Graphics Package Power (W)": "34.0",
          "GPU use (%)": String(50 + index),
          "VRAM Total Memory (B)": "17163091968",
          "VRAM Total Used Memory (B)": "19095552",
          "PCI Bus": `0000:0${index}:00.0`,
        },
      ]),
      ["system", { "Driver version": "6.7.0" }],
    ]),
  );

export const iftop = (containers: readonly StandInContainer[]): string => {
  const row = (left: string, arrow: string, rate: string) =>
    `${left.padEnd(42)} ${arrow} ${[rate, rate, rate, rate].map((cell) => cell.padStart(10)).join(" ")}`;
  return lines([
    "Listening on eth0",
    "   # Host name (port/service if enabled)            last 2s   last 10s   last 40s cumulative",
    "-".repeat(92),
    ...containers.flatMap(({ port }, number) => [
      row(`${String(number + 1).padStart(4)} 10.9.0.1:${port}`, "=>", "2.00KB"),
      row("     10.9.0.2:80", "<=", "512B"),
    ]),
    "-".repeat(92),
    "Total send rate:                                     2.00KB     2.00KB     2.00KB",
    "Total receive rate:                                    512B       512B       512B",
    "Total send and receive rate:                         2.50KB     2.50KB     2.50KB",
    "-".repeat(92),
  ]);
};

export const lsof = ({ pid, port }: StandInContainer): string =>
  lines([
    "COMMAND   PID     USER   FD   TYPE DEVICE SIZE/OFF NODE NAME",
    `python3 ${pid}     1000    3u  IPv4  46048      0t0  TCP 10.9.0.1:${port}->10.9.0.2:80 (ESTABLISHED)`,
    `python3 ${pid}     1000    6u  IPv4  46052      0t0  TCP *:8080 (LISTEN)`,
  ]);

export const ps = (containers: readonly StandInContainer[]): string =>
  lines([
    "S  3044       1 /sbin/init splash",
    "D  1800      10 /usr/bin/nvidia-smi -q -x",
    "I     0      12 [kworker/0:0H]",
    "Z     0      95 [python3] <defunct>",
    ...containers.map(({ pid }) => `R 721008 ${pid} /opt/python/bin/python3 train.py`),
  ]);

export const crictlStats = (containers: readonly StandInContainer[]): string =>
  JSON.stringify({
    stats: containers.map(({ id, name }) => ({
      attributes: {
        id,
        metadata: { name: "app", attempt: 0 },
        labels: {
          "io.kubernetes.container.name": "app",
          "io.kubernetes.pod.name": name.split("_")[2],
          "io.kubernetes.pod.namespace": "lab",
        },
      },
      cpu: { usageCoreNanoSeconds: { value: "2656250000" }, usageNanoCores: { value: "1500000000" } },
      memory: { workingSetBytes: { value: "25317376" }, rssBytes: { value: "1024" } },
      writableLayer: { usedBytes: { value: "0" } },
    })),
  });

export const lines = (rows: readonly string[]): string => rows.map((row) => `${row}\n`).join("");
