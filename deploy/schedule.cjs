// What follows from the settings and the schedules: whether a schedule is on, and how long nothing need be heard of a success.
const cron = require("aws-cron-parser");

const HOUR = 3_600_000;
const UNITS = { minute: HOUR / 60, hour: HOUR, day: 24 * HOUR };
/** As long as a run with its retries may take, hours. */
const SLACK = 2;
/** CloudWatch looks back for a week at most, hours. */
const LONGEST = 168;
/** As many times as schedules of a few times a day have in a fortnight; a yearly one shows its gap with the first. */
const LOOKED_AT = 400;

const refused = (expression, problem) =>
  new Error(
    `planSchedule=${JSON.stringify(expression)} ${problem}. Nothing was packaged. Write for example cron(0 6 * * ? *), in UTC, or rate(1 day).`,
  );

/** The longest time between two runs, milliseconds. */
function longestGap(expression) {
  const [, count, unit] = /^rate\((\d+) (minute|hour|day)s?\)$/.exec(expression) ?? [];
  if (count !== undefined) return Number(count) * UNITS[unit];
  const [, fields] = /^cron\((.+)\)$/.exec(expression) ?? [];
  if (fields === undefined) throw refused(expression, "is neither cron(...) nor rate(...)");
  let parsed;
  let at;
  try {
    parsed = cron.parse(fields);
    at = cron.next(parsed, new Date());
  } catch {
    throw refused(expression, "is no schedule that EventBridge takes");
  }
  if (!at) throw refused(expression, "never comes again");
  let longest = 0;
  for (let looked = 0; looked < LOOKED_AT; looked += 1) {
    const next = cron.next(parsed, at);
    if (!next) break;
    longest = Math.max(longest, next - at);
    at = next;
  }
  return longest;
}

const isSet = async (resolveVariable, ...names) => {
  const texts = await Promise.all(names.map((name) => resolveVariable(`env:${name}, ''`)));
  return texts.some((text) => String(text ?? "").trim() !== "");
};
const state = (isOn) => (isOn ? "ENABLED" : "DISABLED");

/** Without settings a deployment is one to look at, and its schedule would fail each day. */
const isPlanned = (resolveVariable) =>
  isSet(resolveVariable, "PROMETHEUS_SERVER", "TENANTS_PARAMETER", "TENANTS_OBJECT");
module.exports.planState = async ({ resolveVariable }) => state(await isPlanned(resolveVariable));

/** Without a Pushgateway there is nothing to reap. */
module.exports.reapState = async ({ resolveVariable }) => state(await isSet(resolveVariable, "PUSHGATEWAY_URL"));

/** Hours after which the alarm no-success rings; 0: it does not: the schedule is off, or rarer than CloudWatch looks back. */
module.exports.noSuccessHours = async ({ resolveVariable }) => {
  const expression = String(await resolveVariable("param:planSchedule"));
  const hours = Math.ceil(longestGap(expression) / HOUR) + SLACK;
  if (!(await isPlanned(resolveVariable))) return 0;
  if (hours <= LONGEST) return hours;
  console.error(
    `gridmeter: warning: planSchedule=${JSON.stringify(expression)} is so seldom that the alarm no-success cannot watch it (CloudWatch looks back for a week), so there is none.`,
  );
  return 0;
};
