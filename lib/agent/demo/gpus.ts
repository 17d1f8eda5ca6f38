/** A GPU of the made-up node, at one moment. */
type MadeUpGpu = {
  readonly use: number;
  readonly memory: number;
  readonly processes: readonly { readonly pid: number; readonly mib: number }[];
  readonly isHot: boolean;
  readonly isSplit: boolean;
  readonly uncorrected: number;
};

const MEMORY_MIB = 81_559;
const LIMIT_WATTS = 700;
const uuid = (index: number): string => `GPU-made0up0-0000-4000-8000-00000000000${index}`;

/** A value that swings between two others, with a period in seconds. */
export const swing = (seconds: number, period: number, low: number, high: number): number =>
  low + ((high - low) * (1 + Math.sin((2 * Math.PI * seconds) / period))) / 2;

/**
 * What nvidia-smi would print of four GPUs: one at its power limit, one that gets too hot now and then, one that a process outside any
 * container uses, and one that is split (MIG). Counters only grow. @param seconds since the node was made up
 */
export function nvidiaSmiLog(seconds: number): string {
  const gpus: readonly MadeUpGpu[] = [
    { ...PLAIN, use: swing(seconds, 300, 0.9, 1), memory: 0.86, processes: [{ pid: 4101, mib: 70_100 }] },
    {
      ...PLAIN,
      use: swing(seconds, 120, 0.3, 1),
      memory: swing(seconds, 200, 0.3, 0.7),
      processes: [{ pid: 4102, mib: 41_000 }],
      isHot: seconds % 60 > 20,
    },
    {
      ...PLAIN,
      use: swing(seconds, 90, 0, 0.2),
      memory: 0.12,
      processes: [
        { pid: 4900, mib: 6100 },
        { pid: 4104, mib: 2600 },
      ],
      uncorrected: 1,
    },
    { ...PLAIN, use: 0, memory: 0.4, processes: [{ pid: 4103, mib: 30_100 }], isSplit: true },
  ];
  return `<?xml version="1.0" ?>
<!DOCTYPE nvidia_smi_log SYSTEM "nvsmi_device_v13.dtd">
<nvidia_smi_log><driver_version>580.0.made-up</driver_version><cuda_version>13.0</cuda_version><attached_gpus>${gpus.length}</attached_gpus>
${gpus.map((gpu, index) => gpuLog(gpu, index, seconds)).join("\n")}
</nvidia_smi_log>
`;
}

const PLAIN = { isHot: false, isSplit: false, uncorrected: 0 };

function gpuLog(gpu: MadeUpGpu, index: number, seconds: number): string {
  const { use, memory, isSplit, isHot, uncorrected } = gpu;
  const watts = Math.min(LIMIT_WATTS, 75 + 660 * use);
  const percent = (value: number): string => (isSplit ? "N/A" : `${Math.round(100 * value)} %`);
  const used = Math.round(MEMORY_MIB * memory);
  // nvidia-smi prints each on a line of its own, and the probe reads them so.
  const processes = gpu.processes.flatMap(({ pid, mib }) => [
    "<process_info>",
    `<pid>${pid}</pid>`,
    "<type>C</type>",
    `<used_memory>${mib} MiB</used_memory>`,
    "</process_info>",
  ]);
  return `<gpu id="00000000:${(0x1b + index).toString(16).toUpperCase()}:00.0"><product_name>Made-up GPU 80GB</product_name>
<mig_mode><current_mig>${isSplit ? "Enabled" : "Disabled"}</current_mig></mig_mode>
<mig_devices>${isSplit ? [0, 1].map((each) => migDevice(each, seconds)).join("") : "None"}</mig_devices>
<uuid>${uuid(index)}</uuid><minor_number>${index}</minor_number>
<pci><pci_gpu_link_info><pcie_gen><max_link_gen>5</max_link_gen><current_link_gen>${use > 0.05 ? 5 : 1}</current_link_gen></pcie_gen>
<link_widths><max_link_width>16x</max_link_width><current_link_width>16x</current_link_width></link_widths></pci_gpu_link_info>
<replay_counter>0</replay_counter><tx_util>${Math.round(900_000 * use)} KB/s</tx_util><rx_util>${Math.round(2_400_000 * use)} KB/s</rx_util></pci>
<fan_speed>N/A</fan_speed><performance_state>P${use > 0.02 ? 0 : 8}</performance_state>
<clocks_event_reasons>${reasons(gpu, watts)}</clocks_event_reasons>
<clocks_event_reasons_counters><clocks_event_reasons_counters_sw_power_cap>${index === 0 ? Math.round(seconds * 400_000) : 0} us</clocks_event_reasons_counters_sw_power_cap>
<clocks_event_reasons_counters_sw_therm_slowdown>${index === 1 ? Math.round(seconds * 90_000) : 0} us</clocks_event_reasons_counters_sw_therm_slowdown></clocks_event_reasons_counters>
<fb_memory_usage><total>${MEMORY_MIB} MiB</total><reserved>551 MiB</reserved><used>${used} MiB</used><free>${MEMORY_MIB - used - 551} MiB</free></fb_memory_usage>
<utilization><gpu_util>${percent(use)}</gpu_util><memory_util>${percent(use * 0.6)}</memory_util><encoder_util>${percent(0)}</encoder_util><decoder_util>${percent(use * 0.1)}</decoder_util></utilization>
<ecc_mode><current_ecc>Enabled</current_ecc></ecc_mode>
<ecc_errors><volatile>${ecc(Math.floor(seconds / 40), uncorrected)}</volatile><aggregate>${ecc(12 + Math.floor(seconds / 40), uncorrected)}<sram_threshold_exceeded>No</sram_threshold_exceeded></aggregate></ecc_errors>
<remapped_rows><remapped_row_corr>0</remapped_row_corr><remapped_row_unc>${uncorrected}</remapped_row_unc><remapped_row_pending>${uncorrected > 0 ? "Yes" : "No"}</remapped_row_pending><remapped_row_failure>No</remapped_row_failure></remapped_rows>
<gpu_recovery_action>${uncorrected > 0 ? "Drain and Reset" : "None"}</gpu_recovery_action>
<temperature><gpu_temp>${Math.round(isHot ? 88 : 34 + 40 * use)} C</gpu_temp><memory_temp>${Math.round(isHot ? 95 : 40 + 42 * use)} C</memory_temp></temperature>
<gpu_power_readings><average_power_draw>${watts.toFixed(2)} W</average_power_draw><current_power_limit>${LIMIT_WATTS}.00 W</current_power_limit></gpu_power_readings>
<clocks><graphics_clock>${clock(use, isHot, 1980)} MHz</graphics_clock><sm_clock>${clock(use, isHot, 1980)} MHz</sm_clock><mem_clock>2619 MHz</mem_clock><video_clock>${clock(use, isHot, 1545)} MHz</video_clock></clocks>
<max_clocks><graphics_clock>1980 MHz</graphics_clock><sm_clock>1980 MHz</sm_clock><mem_clock>2619 MHz</mem_clock><video_clock>1545 MHz</video_clock></max_clocks>
<processes>
${processes.join("\n")}
</processes>
</gpu>`;
}

function clock(use: number, isHot: boolean, highest: number): number {
  if (use <= 0.02) return 345;
  return Math.round(highest * (isHot ? 0.62 : 1 - 0.12 * Math.max(0, use - 0.9) * 10));
}

function reasons({ use, isHot, isSplit }: MadeUpGpu, watts: number): string {
  const active: Readonly<Record<string, boolean>> = {
    gpu_idle: use <= 0.02 && !isSplit,
    sw_power_cap: watts > LIMIT_WATTS - 30,
    hw_slowdown: false,
    hw_thermal_slowdown: false,
    hw_power_brake_slowdown: false,
    sw_thermal_slowdown: isHot,
  };
  return Object.entries(active)
    .map(([name, is]) => `<clocks_event_reason_${name}>${is ? "Active" : "Not Active"}</clocks_event_reason_${name}>`)
    .join("");
}

function ecc(corrected: number, uncorrected: number): string {
  return (
    "<sram_correctable>0</sram_correctable><sram_uncorrectable_parity>0</sram_uncorrectable_parity><sram_uncorrectable_secded>0</sram_uncorrectable_secded>" +
    `<dram_correctable>${corrected}</dram_correctable><dram_uncorrectable>${uncorrected}</dram_uncorrectable>`
  );
}

function migDevice(index: number, seconds: number): string {
  const used = Math.round(swing(seconds + 40 * index, 150, 2000, 36_000));
  return `<mig_device><index>${index}</index><gpu_instance_id>${index + 1}</gpu_instance_id><compute_instance_id>0</compute_instance_id>
<device_attributes><shared><multiprocessor_count>${60 - 14 * index}</multiprocessor_count></shared></device_attributes>
<ecc_error_count><volatile_count><sram_uncorrectable>0</sram_uncorrectable></volatile_count></ecc_error_count>
<fb_memory_usage><total>40192 MiB</total><used>${used} MiB</used></fb_memory_usage></mig_device>`;
}
