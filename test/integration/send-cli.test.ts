// `gridmeter send`, `account --send` and what `check` asks of the sending, at a stand-in of AMS over HTTPS; what it received is what
// openssl verifies and the queue held.
import { copyFile, mkdir, writeFile } from "node:fs/promises";
import { createServer } from "node:http";
import { join } from "node:path";
import { afterAll, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { z } from "zod";
import { deliveryOf } from "../../lib/accounting/delivery/ams-or-spool.ts";
import { DirqQueue } from "../../lib/accounting/delivery/dirq.ts";
import { S3Store } from "../../lib/accounting/store/s3.ts";
import { kindsCluster, simulate } from "../simulator/index.ts";
import { amsSettings, startAmsSite } from "../support/ams-sender.ts";
import { publishGeneration } from "../support/aws-spool.ts";
import { generationMessages, summaryBody, unit } from "../support/dirq-messages.ts";
import { dirqTool } from "../support/dirq-tool.ts";
import { listen } from "../support/fault-proxy.ts";
import { type Moto, startMoto } from "../support/moto.ts";
import type { PrometheusServer } from "../support/prometheus-server.ts";
import { type CliRun, bundledCli, gap, jsonOf, leastSettings, runCli } from "../support/run-cli.ts";
import { serveSeries } from "../support/serve-series.ts";
import { verified } from "../support/smime.ts";
import { scratchDirectory } from "../support/store-script.ts";
import { encrypted } from "../support/tls.ts";

const site = await startAmsSite("rsa");
const { authority, host, ams } = site;
let server: PrometheusServer;
let moto: Moto;
let scratch: Awaited<ReturnType<typeof scratchDirectory>>;
let program: readonly string[];
let root: string;
let first: number;
let made = 0;

beforeAll(async () => {
  scratch = await scratchDirectory();
  program = bundledCli(scratch.path);
  [moto, server] = await Promise.all([
    startMoto(),
    serveSeries(simulate(kindsCluster({ kinds: ["plain", "millicores"], scrapeInterval: 300 }))),
  ]);
}, 180_000);
afterAll(async () => {
  await Promise.all([site.stop(), moto.stop(), server.stop()]);
  await scratch.remove();
});
beforeEach(async () => {
  ams.misbehave(() => undefined);
  ams.registered(undefined);
  root = join(scratch.path, `queue-${(made += 1)}`);
  await mkdir(root);
  first = ams.published.length;
});

const amsEnv = (more: Readonly<Record<string, string>> = {}): Record<string, string> => ({
  ...amsSettings(site),
  ...more,
});
const cli = (args: readonly string[], env: Readonly<Record<string, string>> = amsEnv()): Promise<CliRun> =>
  runCli(args, { cwd: scratch.path, program, env });
const sendQueue = (...more: string[]) => cli(["send", "--source", `dirq:${root}`, ...more]);
const put = async (...bodies: readonly string[]): Promise<readonly string[]> => {
  const result = await new DirqQueue(root).exclusively((open) => open.replace([], bodies));
  if (result === "taken" || result.status !== "added") throw new Error("not added");
  return result.names;
};
const left = async () => z.array(z.string()).parse(await dirqTool("read", root));
const taken = (tool: "smime" | "cms" = "cms") =>
  ams.published.slice(first).map(({ signed }) => verified(signed, authority.caFile, tool));
const bodies = generationMessages(unit, 1).map(({ body }) => body);

describe("gridmeter send", () => {
  test("sends a dirq: a table, and AMS has the queue's bytes, signed", async () => {
    const names = await put(...bodies);
    const run = await sendQueue();
    expect([run.code, run.stderr]).toEqual([0, ""]);
    expect(run.stdout).toMatch(/message +│ kind +│ unit +│ size +│ status +│ AMS id/);
    for (const [index, name] of names.entries())
      expect(run.stdout).toMatch(
        new RegExp(
          `${name} .*│ Some-Site k8s.example.org:6443/grid 2025-01 │ \\d+ B, signed .* │ sent +│ ${first + index + 1} `,
        ),
      );
    expect([taken("smime"), taken("cms"), await left()]).toEqual([bodies, bodies, []]);
  });

  test.each(["ec", "ec-384"] as const)("signs with a key of %s too, given by options", async (kind) => {
    await put(...bodies);
    const own = authority.issue(`host-${kind}.example.org`, 30, kind);
    const options = {
      "ams-host": ams.host,
      "ams-port": String(ams.port),
      "ams-authn-port": String(ams.authnPort),
      "ams-project": "accounting",
      "ams-topic": "gLite-APEL",
      "ams-certificate": own.certFile,
      "ams-key": own.keyFile,
      "ams-ca-file": authority.caFile,
    };
    const args = Object.entries(options).flatMap(([name, value]) => [`--${name}`, value]);
    // The options win over what the environment says.
    const run = await cli(
      ["send", "--source", `dirq:${root}`, "--json", ...args],
      amsEnv({ AMS_HOST: "nowhere.example.org" }),
    );
    expect(jsonOf(run)).toMatchObject({
      source: `dirq:${root}`,
      host: "127.0.0.1",
      certificate: { name: `/DC=org/O=Example, Inc/CN=host-${kind}.example.org` },
      dryRun: false,
      messages: [
        { status: "sent", kind: "summary", amsId: String(first + 1) },
        { status: "sent", kind: "sync" },
      ],
      errors: [],
      exitCode: 0,
    });
    expect(taken()).toEqual(bodies);
  });

  test("a dry run asks for token and topic, signs, and sends nothing", async () => {
    await put(...bodies);
    const asked = ams.requests.length;
    const run = await sendQueue("--dry-run");
    expect([run.code, run.stdout]).toEqual([0, expect.stringContaining("would send")]);
    expect(ams.requests.slice(asked).map(({ what }) => what)).toEqual(["token", "topic"]);
    expect([taken(), await left()]).toEqual([[], bodies]);
    ams.registered([]);
    const refused = await sendQueue("--dry-run", "--json");
    expect([refused.code, jsonOf(refused)]).toEqual([
      4,
      { error: expect.objectContaining({ code: "ams_auth" }) as object, exitCode: 4 },
    ]);
  });

  test("takes what it needs from ssmsend's configuration, authorities and queue too", async () => {
    await put(...bodies);
    const capath = join(scratch.path, "certificates");
    await mkdir(capath);
    await copyFile(authority.caFile, join(capath, "0123abcd.0"));
    await writeFile(join(capath, "broken.pem"), "nothing");
    await writeFile(join(capath, "0123abcd.signing_policy"), "access_id_CA");
    const file = join(scratch.path, "sender.cfg");
    const config = (protocol: string, more = "") => `# as the package has it
[sender]
protocol: ${protocol}
[broker]
host: 127.0.0.1
port = 443
use_ssl: true
[certificates]
certificate: ${host.certFile}
key: ${host.keyFile}
capath: ${capath}
${more}
[messaging]
ams_project: accounting
destination: gLite-APEL
path: ${root}
path_type: dirq
[logging]
logfile: /var/log/apel/ssmsend.log
`;
    const ports = { AMS_PORT: String(ams.port), AMS_AUTHN_PORT: String(ams.authnPort) };
    await writeFile(file, config("STOMP"));
    const stomp = await cli(["send", "--ssm-config", file], ports);
    expect([stomp.code, stomp.stderr]).toEqual([
      2,
      expect.stringMatching(/config_invalid: ssmsend's configuration .*sender\.cfg has protocol: STOMP in \[sender\]/),
    ]);
    await writeFile(file, config("AMS", "server_cert: /etc/grid-security/servercert.pem"));
    const encrypting = await cli(["send", "--ssm-config", file], ports);
    expect([encrypting.code, encrypting.stderr]).toEqual([
      2,
      expect.stringContaining('server_cert: "/etc/grid-security/servercert.pem"'),
    ]);
    expect(await left()).toEqual(bodies);
    await writeFile(file, config("AMS"));
    const run = await cli(["send", "--ssm-config", file], ports);
    expect([run.code, run.stderr]).toEqual([
      0,
      expect.stringMatching(
        /^gridmeter: warning: the file ".*broken\.pem" \(capath\) is passed over: .*holds no certificate.*\n$/,
      ),
    ]);
    expect([taken(), await left()]).toEqual([bodies, []]);
  });

  test("sends from a bucket, keeps the id of AMS, and says so to the bucket; a spooler stops then, until it takes over", async () => {
    const bucket = await moto.bucket();
    const store = new S3Store({ client: moto.s3, bucket, prefix: "apel" });
    const [key = ""] = await publishGeneration(store, unit, 1);
    const env = amsEnv(moto.env());
    const source = ["--source", `s3://${bucket}/apel`];
    const dry = await cli(["send", ...source, "--dry-run"], env);
    expect([dry.code, await store.list("sent/"), await deliveryOf(store)]).toEqual([0, [], undefined]);
    const run = await cli(["send", ...source, "--json"], env);
    expect(jsonOf(run)).toMatchObject({
      messages: [{ message: key, status: "sent" }, { status: "sent" }],
      exitCode: 0,
    });
    expect(taken()).toEqual(bodies);
    expect((await store.get(`${key.replace("outgoing", "sent")}.ams.json`))?.body).toContain(`"amsId":"${first + 1}"`);
    expect(await deliveryOf(store)).toBe("ams");

    await publishGeneration(store, unit, 2);
    const spool = ["spool", ...source, "--output", `dirq:${root}`];
    for (const once of [["--once"], []]) {
      const stopped = await cli([...spool, ...once], env);
      expect([stopped.code, stopped.stdout + stopped.stderr]).toEqual([
        2,
        expect.stringContaining("delivery_elsewhere"),
      ]);
    }
    expect(await left()).toEqual([]);
    expect((await cli([...spool, "--once", "--take-over"], env)).code).toBe(0);
    expect(await left()).toEqual(generationMessages(unit, 2).map(({ body }) => body));
    await publishGeneration(store, unit, 3);
    const refused = await cli(["send", ...source], env);
    expect([refused.code, refused.stderr]).toEqual([
      2,
      expect.stringMatching(/delivery_elsewhere: .*go through a spooler.*--take-over/),
    ]);
    expect((await cli(["send", ...source, "--take-over"], env)).code).toBe(0);
    expect(taken().slice(2)).toEqual(generationMessages(unit, 3).map(({ body }) => body));
  });

  test("a bucket from which something was spooled is not taken for AMS without a word", async () => {
    const bucket = await moto.bucket();
    const store = new S3Store({ client: moto.s3, bucket, prefix: "" });
    await publishGeneration(store, unit, 1);
    const env = amsEnv(moto.env());
    expect((await cli(["spool", "--once", "--source", `s3://${bucket}`, "--output", `dirq:${root}`], env)).code).toBe(
      0,
    );
    expect((await cli(["send", "--source", `s3://${bucket}`], env)).code).toBe(2);
    expect(taken()).toEqual([]);
  });
});

describe("bad input is a clear error, and nothing is lost", () => {
  const without = (name: string) => Object.fromEntries(Object.entries(amsEnv()).filter(([key]) => key !== name));
  test.each<[string, () => Record<string, string>, number, RegExp]>([
    ["no host", () => without("AMS_HOST"), 2, /nothing was sent\.\n {2}- AMS_HOST \(--ams-host\): is not set/],
    [
      "a host with its scheme",
      () => amsEnv({ AMS_HOST: "https://127.0.0.1" }),
      2,
      /"https:\/\/127\.0\.0\.1": is no host's name/,
    ],
    ["a port that is none", () => amsEnv({ AMS_PORT: "https" }), 2, /AMS_PORT .*"https": is not a whole number/],
    [
      "certificate and key of two pairs",
      () => amsEnv({ AMS_KEY: authority.issue("other", 30).keyFile }),
      2,
      /certificate_invalid: The file .* \(AMS_KEY\) holds another key/,
    ],
    [
      "an expired certificate",
      () => {
        const { certFile, keyFile } = authority.issue("old", -1);
        return amsEnv({ AMS_CERTIFICATE: certFile, AMS_KEY: keyFile });
      },
      2,
      /certificate_invalid: .*expired at/,
    ],
    ["an encrypted key", () => amsEnv({ AMS_KEY: encrypted(host) }), 2, /certificate_invalid: .*is encrypted/],
    ["a file that is not there", () => amsEnv({ AMS_CERTIFICATE: "/nowhere/cert.pem" }), 2, /AMS_CERTIFICATE.*ENOENT/],
    [
      "a token file that is empty",
      () => amsEnv({ AMS_TOKEN_FILE: "/dev/null" }),
      2,
      /\(AMS_TOKEN_FILE\) holds no token/,
    ],
    [
      "a token that is refused",
      () => amsEnv({ AMS_TOKEN_FILE: join(scratch.path, "token") }),
      4,
      /ams_auth: .*answered 401/,
    ],
    ["an authority that is unknown", () => without("AMS_CA_FILE"), 4, /ams_tls: .*AMS_CA_FILE/],
  ])("%s", async (_, env, code, message) => {
    await writeFile(join(scratch.path, "token"), "refused-token\n");
    await put(...bodies);
    const run = await cli(["send", "--source", `dirq:${root}`], env());
    expect(run.stderr).toMatch(message);
    expect(run.stderr).not.toContain("refused-token");
    expect([run.code, await left(), taken()]).toEqual([code, bodies, []]);
  });

  test.each(["dirq:/nowhere/at/all", "ftp://host/path", "s3://NOT_A_BUCKET", ""])("--source %j", async (source) => {
    const run = await cli(["send", "--source", source]);
    expect([run.code, run.stderr]).toEqual([2, expect.stringMatching(/^gridmeter: usage: --source/)]);
  });

  test("a host that speaks plain http", async () => {
    const plain = createServer((_, response) => response.end("<html>hello"));
    const port = await listen(plain);
    await put(...bodies);
    const run = await cli(["send", "--source", `dirq:${root}`], amsEnv({ AMS_AUTHN_PORT: String(port) }));
    plain.close();
    expect([run.code, run.stderr]).toEqual([4, expect.stringMatching(/ams_tls: .*does not speak TLS/)]);
    expect(await left()).toEqual(bodies);
  });

  test("one bad message is set aside and named; the rest goes on", async () => {
    const other = summaryBody({ ...unit, month: "2024-12" }, 1);
    const [name = ""] = await put("hello\n", other);
    const run = await sendQueue("--json");
    const { messages } = z.object({ messages: z.array(z.object({ status: z.string() })) }).parse(jsonOf(run));
    expect([run.code, messages.map(({ status }) => status)]).toEqual([2, ["refused", "sent"]]);
    expect(run.stderr).toContain(`message_invalid: ${name} was not sent and is set aside`);
    expect(taken()).toEqual([other]);
  });
});

describe("in one run", () => {
  const account = (...more: string[]) =>
    cli(["account", ...gap("2025-01", "2025-02"), "--json", ...more], {
      ...leastSettings(server.url),
      ...amsEnv(moto.env()),
    });

  test("gridmeter account --send counts, publishes and sends", async () => {
    const place = ["--output", `dirq:${root}`, "--ledger", `${root}-ledger`];
    const reference = await account("--output", `dirq:${root}-reference`, "--ledger", `${root}-reference-ledger`);
    expect(reference.code).toBe(0);
    const expected = z.array(z.string()).parse(await dirqTool("read", `${root}-reference`));
    const dry = await account("--send", "--dry-run", ...place);
    expect([dry.code, taken()]).toEqual([0, []]);
    const run = await account("--send", ...place);
    expect([run.code, taken(), await left()]).toEqual([0, expected, []]);
    expect(jsonOf(run)).toMatchObject({
      sent: [
        { status: "sent", kind: "summary" },
        { status: "sent", kind: "sync" },
      ],
      errors: [],
    });
    // Nothing new, nothing sent.
    expect([(await account("--send", ...place)).code, taken()]).toEqual([0, expected]);
  });

  test("so it does from a bucket; a fault of AMS leaves the messages there, and the next run sends them", async () => {
    const bucket = await moto.bucket();
    const place = ["--output", `s3://${bucket}`, "--ledger", `s3://${bucket}`];
    ams.misbehave(({ what }) => (what === "publish" ? { kind: "status", status: 403 } : undefined));
    const failed = await account("--send", ...place);
    expect([failed.code, jsonOf(failed)]).toEqual([
      4,
      expect.objectContaining({ errors: [expect.objectContaining({ code: "ams_auth" })] }),
    ]);
    const store = new S3Store({ client: moto.s3, bucket, prefix: "" });
    expect(await store.list("outgoing/")).toHaveLength(2);
    ams.misbehave(() => undefined);
    expect((await account("--send", ...place)).code).toBe(0);
    expect([await store.list("outgoing/"), taken().length]).toEqual([[], 2]);
  });

  test("what is wrong with the sending is known before anything is counted", async () => {
    const run = await cli(
      ["account", ...gap("2025-01", "2025-02"), "--send", "--output", `dirq:${root}`],
      leastSettings(server.url),
    );
    expect([run.code, run.stderr]).toEqual([2, expect.stringContaining("AMS_HOST")]);
    expect(await left()).toEqual([]);
  });

  test("gridmeter check asks for certificate, name, AMS and topic", async () => {
    const check = (more: Readonly<Record<string, string>> = {}) =>
      cli(["check", ...gap("2025-01", "2025-02")], { ...leastSettings(server.url), ...amsEnv(more) });
    const good = await check();
    expect(good.stdout).toMatch(
      /sending to AMS\n {2}ok {3}Does the host certificate fit its key, and is it valid\? yes\n {2}ok {3}When does the certificate end\? 20.*\n {2}ok {3}Which name must GOCDB hold .*\? \/DC=org\/O=Example, Inc\/CN=host\.example\.org\n {2}ok {3}Does AMS answer\? yes, at 127\.0\.0\.1\n {2}ok {3}Is the topic there\? yes, gLite-APEL of accounting\n/,
    );
    expect(good.code).toBe(0);
    const noTopic = await check({ AMS_TOPIC: "nobodys" });
    expect([noTopic.code, noTopic.stdout]).toEqual([
      4,
      expect.stringMatching(/BAD {2}Is the topic there\? no: ams_refused/),
    ]);
    const { certFile, keyFile } = authority.issue("ends-soon", 9);
    const soon = await check({ AMS_CERTIFICATE: certFile, AMS_KEY: keyFile });
    expect([soon.code, soon.stdout]).toEqual([
      0,
      expect.stringMatching(/WARN When does the certificate end\? .*\n {7}Renew it/),
    ]);
    const wrong = await check({ AMS_KEY: authority.issue("another", 30).keyFile });
    expect([wrong.code, wrong.stdout]).toEqual([
      2,
      expect.stringMatching(/BAD {2}Does the host certificate fit its key.* no: certificate_invalid/),
    ]);
    const unset = await cli(["check", ...gap("2025-01", "2025-02")], leastSettings(server.url));
    expect(unset.stdout).not.toContain("AMS");
  });
});
