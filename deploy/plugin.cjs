// What osls does before it packages, deploys or invokes a function on this machine: it builds the bundles, so that none of an older
// checkout is ever used, and, where they are to be sent, checks the settings with the command line's own texts.
const { spawnSync } = require("node:child_process");
const { existsSync, readFileSync } = require("node:fs");
const { join, resolve } = require("node:path");
const { HeadBucketCommand, S3Client } = require("@aws-sdk/client-s3");

const root = resolve(__dirname, "..");

/** VPC_SUBNET_IDS is the setting of the template's parameter VpcSubnetIds. */
const settingOf = (parameter) => parameter.replaceAll(/(?<!^)[A-Z]/g, "_$&").toUpperCase();

class Preparation {
  constructor(serverless) {
    this.serverless = serverless;
    const prepare = async () => {
      this.check();
      if (serverless.processedInput.commands[0] === "deploy") await this.lookForBucket();
      this.build();
    };
    this.hooks = {
      "before:package:cleanup": prepare,
      "before:deploy:function:initialize": prepare,
      "before:invoke:local:loadEnvVars": () => this.build(),
    };
  }

  build() {
    this.run(
      "scripts/build-functions.ts",
      "",
      "The functions' bundles could not be built, see above. Nothing was sent.",
    );
  }

  check() {
    const { service, processedInput } = this.serverless;
    const { stage, region } = service.provider;
    if (stage === "local" && processedInput.commands[0] === "deploy")
      throw new this.serverless.classes.Error(
        'The stage "local" is for `serverless invoke local`; its functions know no queues. Nothing was deployed. Name another stage, such as --stage prod.',
      );
    // As osls does it: .env is read where the stage has no file of its own.
    const file = [`.env.${stage}`, ".env"].map((name) => join(root, name)).find(existsSync);
    const deployment = {
      stage,
      region,
      env: process.env,
      envFile: file === undefined ? "" : readFileSync(file, "utf8"),
      environment: environmentsOf(service),
      parameters: defaultsOf(service.resources),
    };
    this.run("scripts/check-deployment.ts", JSON.stringify(deployment), "Nothing was packaged or sent.");
  }

  /** A bucket whose name is misspelt would be missed by the functions only, each day. */
  async lookForBucket() {
    const Bucket = defaultsOf(this.serverless.service.resources).EXISTING_BUCKET;
    if (Bucket === "") return;
    const config = await this.serverless.getProvider("aws").getAwsSdkV3Config();
    const s3 = new S3Client({ ...config, forcePathStyle: true });
    try {
      await s3.send(new HeadBucketCommand({ Bucket }));
    } catch (error) {
      // Who may not look at it may be allowed to deploy all the same.
      if (error.$metadata?.httpStatusCode !== 404) return;
      throw new this.serverless.classes.Error(
        `EXISTING_BUCKET=${JSON.stringify(Bucket)}: there is no such bucket. Nothing was sent. Correct the name, or leave the setting out: then the stack makes a bucket.`,
      );
    } finally {
      s3.destroy();
    }
  }

  run(script, input, refusal) {
    const done = spawnSync(process.execPath, [join(root, "scripts/run.mjs"), script], {
      cwd: root,
      input,
      // What osls prints on stdout may be read by a program.
      stdio: ["pipe", 2, 2],
    });
    if (done.error !== undefined) throw done.error;
    if (done.status !== 0) throw new this.serverless.classes.Error(refusal);
  }
}

/** The texts in the functions' environments; what is looked up in the stack is none. */
function environmentsOf({ provider, functions }) {
  const all = Object.assign({}, provider.environment, ...Object.values(functions).map((each) => each.environment));
  return Object.fromEntries(Object.entries(all).filter(([, value]) => typeof value === "string"));
}

function defaultsOf({ Parameters: parameters }) {
  const entries = Object.entries(parameters).map(([name, { Default: text }]) => [settingOf(name), String(text)]);
  return Object.fromEntries(entries);
}

module.exports = Preparation;
