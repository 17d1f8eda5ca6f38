/** A command line, and what it is for. */
export type Example = readonly [line: string, what: string];

const LEDGER = "--ledger /var/lib/gridmeter/ledger";
const QUEUE = "--output dirq:/var/spool/apel/outgoing";
const GAP = "--mode gap --start 2026-08-01T00:00:00Z --end 2026-10-01T00:00:00Z";
const GATEWAY = "--pushgateway http://pushgateway.example.org:9091";

/** What `--help` of each command shows; a test reads each line with the program itself. */
export const EXAMPLES: Readonly<Record<string, readonly Example[]>> = {
  account: [
    [`account -e kapel.env ${QUEUE} --dry-run`, "the messages, and nothing is written"],
    [`account -e kapel.env ${QUEUE} ${LEDGER}`, "the daily run"],
    [`account -e kapel.env ${QUEUE} ${LEDGER} ${GAP}`, "two months again"],
  ],
  outcome: [["outcome /var/lib/gridmeter/exit-code", "in a pod, after what sends"]],
  plan: [
    [`plan -e kapel.env ${LEDGER}`, "what a run would ask for now"],
    [`plan -e kapel.env ${LEDGER} ${GAP}`, "the same of two months"],
  ],
  check: [[`check -e kapel.env ${LEDGER}`, "whether a run can succeed, and what to do if not"]],
  report: [
    ["report --demo", "a made-up ledger, to see what a report is"],
    [`report -e kapel.env ${LEDGER}`, "on the terminal"],
    [`report -e kapel.env ${LEDGER} --html report.html --from 2026-01 --to 2026-06`, "half a year as one page"],
    [`report -e kapel.env ${LEDGER} --csv daily`, "one table for a spreadsheet"],
  ],
  manual: [
    [`manual ${QUEUE} ${LEDGER} records.apel`, "check and send, each record once"],
    [`manual ${LEDGER} ${QUEUE} --unpin records.apel`, "let automatic runs publish these months again"],
  ],
  spool: [
    [`spool --source s3://BUCKET/PREFIX ${QUEUE}`, "until SIGTERM"],
    [`spool --source s3://BUCKET/PREFIX ${QUEUE} --once`, "one pass, for cron"],
  ],
  send: [
    ["send --ssm-config /etc/apel/sender.cfg --dry-run", "check certificate, AMS and topic; nothing is sent"],
    ["send --ssm-config /etc/apel/sender.cfg", "what ssmsend's queue holds"],
    ["send -e kapel.env --source s3://BUCKET/PREFIX", "what waits in a bucket"],
  ],
  version: [["version --json", "for a report of a fault"]],
  completion: [
    ["completion bash > /etc/bash_completion.d/gridmeter", "for all users of bash"],
    ['completion zsh > "${fpath[1]}/_gridmeter"', "in zsh"],
    ["completion fish > ~/.config/fish/completions/gridmeter.fish", "in fish"],
  ],
  agent: [
    [`agent ${GATEWAY}`, "publish until SIGTERM"],
    ["agent --demo --listen 127.0.0.1:9102", "a made-up node, to look at dashboards without hardware"],
    ["agent --once", "each probe once; the metrics on stdout"],
    ["agent --config agent.yaml --listen 127.0.0.1:9102", "with a configuration, the port for this host alone"],
  ],
  probe: [
    ["probe --list", "which probes can run here, and why others cannot"],
    ["probe nvidia-smi --json", "run one, and see what it reads"],
    ["probe docker-stats --input saved.txt", "parse a saved output instead"],
  ],
  reap: [
    [`reap ${GATEWAY} --dry-run`, "what would be deleted"],
    [`reap ${GATEWAY} --older-than 2h`, "delete the groups of agents that are gone for two hours"],
  ],
};

/** The examples of a command as lines for the end of its help. */
export function examplesText(command: string): string {
  const lines = (EXAMPLES[command] ?? []).map(([line, what]) => `  # ${what}\n  gridmeter ${line}`);
  return lines.length === 0 ? "" : `\nExamples:\n${lines.join("\n")}`;
}
