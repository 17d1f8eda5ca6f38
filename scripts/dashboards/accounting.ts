import type { Dashboard } from "./panels.ts";

const OWN = 'site=~"$site",submit_host=~"$submit_host"';
const BY = "site, submit_host, period";
/** The newest copy of a figure: a unit's group on the Pushgateway may be scraped by several servers. */
const of = (name: string, more = ""): string => `max by (${BY}) (gridmeter_accounting_${name}{${OWN}${more}})`;
const LEGEND = "{{site}} {{submit_host}} {{period}}";
const MONTHS = ',period=~"current|previous"';

/** The accounting: what runs push of each site and submit host. */
export const ACCOUNTING: Dashboard = {
  uid: "gridmeter-accounting",
  title: "gridmeter: accounting",
  about:
    "What the accounting counted and published, by site, submit host and month. Made for deploy/prometheus; amounts over months are in `gridmeter report`.",
  from: "now-7d",
  variables: [
    {
      name: "site",
      label: "Site",
      query: "label_values(gridmeter_accounting_last_run_timestamp_seconds, site)",
      several: true,
    },
    {
      name: "submit_host",
      label: "Submit host",
      query: 'label_values(gridmeter_accounting_last_run_timestamp_seconds{site=~"$site"}, submit_host)',
      several: true,
    },
  ],
  rows: [
    {
      title: "Now",
      panels: [
        {
          kind: "stat",
          title: "Time since the last success",
          about: "Of the unit of the current or previous month that waits longest. A day and a half is an alert.",
          unit: "s",
          width: 6,
          height: 4,
          limits: [108_000, 129_600],
          targets: [{ expr: `time() - min(${of("last_success_timestamp_seconds", MONTHS)})`, legend: "longest" }],
        },
        {
          kind: "stat",
          title: "Refused months",
          about: "Months that a guard, pins or unseen monitoring kept from being published.",
          unit: "short",
          width: 6,
          height: 4,
          limits: [1, 1],
          targets: [{ expr: `sum(${of("refused")})`, legend: "refused" }],
        },
        {
          kind: "stat",
          title: "Failed months",
          about: "Months that could not be counted or stored.",
          unit: "short",
          width: 6,
          height: 4,
          limits: [1, 1],
          targets: [{ expr: `sum(${of("failed")})`, legend: "failed" }],
        },
        {
          kind: "stat",
          title: "Jobs of the current month",
          about: "Jobs that were counted so far.",
          unit: "short",
          width: 6,
          height: 4,
          targets: [{ expr: `sum(${of("jobs", ',period="current"')})`, legend: "jobs" }],
        },
        {
          kind: "table",
          title: "Units",
          about: "Each site, submit host and month: jobs, what became of it, and when.",
          unit: "short",
          width: 24,
          height: 7,
          columns: { month: "dateTimeAsIso", "last run": "dateTimeFromNow", "last success": "dateTimeFromNow" },
          targets: [
            { expr: `${of("month_timestamp_seconds")} * 1000`, legend: "month" },
            { expr: of("jobs"), legend: "jobs" },
            { expr: of("messages"), legend: "messages" },
            { expr: of("refused"), legend: "refused" },
            { expr: of("failed"), legend: "failed" },
            { expr: `${of("last_run_timestamp_seconds")} * 1000`, legend: "last run" },
            { expr: `${of("last_success_timestamp_seconds")} * 1000`, legend: "last success" },
          ],
        },
      ],
    },
    {
      title: "Over time",
      panels: [
        {
          kind: "timeseries",
          title: "Jobs counted",
          about: "It grows through a month and begins again with the next.",
          unit: "short",
          width: 12,
          height: 8,
          targets: [{ expr: of("jobs"), legend: LEGEND }],
        },
        {
          kind: "timeseries",
          title: "Pods left out, by reason",
          about: "Pods that finished and do not count.",
          unit: "short",
          width: 12,
          height: 8,
          stacked: true,
          targets: [
            {
              expr: `sum by (reason) (max by (${BY}, reason) (gridmeter_accounting_left_out{${OWN}}))`,
              legend: "{{reason}}",
            },
          ],
        },
        {
          kind: "timeseries",
          title: "Time since the last success",
          about: "It falls to 0 with each run that succeeds.",
          unit: "s",
          width: 12,
          height: 8,
          targets: [{ expr: `time() - ${of("last_success_timestamp_seconds", MONTHS)}`, legend: LEGEND }],
        },
        {
          kind: "timeseries",
          title: "Core hours counted",
          about: "Cores times duration of these jobs.",
          unit: "short",
          width: 12,
          height: 8,
          targets: [{ expr: `${of("core_seconds")} / 3600`, legend: LEGEND }],
        },
        {
          kind: "timeseries",
          title: "Gaps of the monitoring",
          about: "How long monitoring was not seen in the month; jobs that were deleted meanwhile are missing.",
          unit: "s",
          width: 12,
          height: 8,
          targets: [{ expr: of("gap_seconds"), legend: LEGEND }],
        },
        {
          kind: "timeseries",
          title: "Messages that wait to be sent",
          about: "In the queue at the end of the last run. What sends them is down if they grow old.",
          unit: "short",
          width: 12,
          height: 8,
          targets: [{ expr: `max by (queue) (gridmeter_accounting_unsent_messages)`, legend: "{{queue}}" }],
        },
        {
          kind: "timeseries",
          title: "Age of the oldest of them",
          about: "How long it had been in the queue at the end of the last run.",
          unit: "s",
          width: 12,
          height: 8,
          targets: [{ expr: `max by (queue) (gridmeter_accounting_unsent_oldest_age_seconds)`, legend: "{{queue}}" }],
        },
        {
          kind: "timeseries",
          title: "Duration of a run",
          about: "How long the last invocation of a unit took.",
          unit: "s",
          width: 12,
          height: 8,
          targets: [{ expr: of("duration_seconds"), legend: LEGEND }],
        },
        {
          kind: "timeseries",
          title: "Days asked",
          about:
            "Days that a run asked Prometheus for. Settled days come from the ledger, so it is few but on the 4th.",
          unit: "short",
          width: 12,
          height: 8,
          targets: [{ expr: of("days_asked"), legend: LEGEND }],
        },
        {
          kind: "state-timeline",
          title: "Refused or failed",
          about: "1 while a month was not published.",
          unit: "short",
          width: 12,
          height: 8,
          limits: [1, 1],
          targets: [{ expr: `${of("refused")} + ${of("failed")}`, legend: LEGEND }],
        },
      ],
    },
  ],
};
