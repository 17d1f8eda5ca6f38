// `npm run docs:pictures`: the pictures of the documents, taken with Chromium: the page of `gridmeter report --demo`, and the terminal on
// which `npm run demo` runs. They are committed; run this again when what they show has changed.
import { spawnSync } from "node:child_process";
import { mkdir, readFile, rm, writeFile } from "node:fs/promises";
import { join, resolve } from "node:path";
import type { Browser } from "puppeteer-core";
import { openPage, startBrowser } from "../test/support/browser.ts";

const root = resolve(import.meta.dirname, "..");
const images = join(root, "docs", "images");
const scratch = join(root, "demo-data", "pictures");
const COLUMNS = 110;

/** Runs a program of this project and gives what it wrote on both outputs, in the order in which a terminal shows it. */
function run(...args: readonly string[]): string {
  // Both outputs are one pipe, as on a terminal.
  const command = [process.execPath, ...args].map((word) => `'${word.replaceAll("'", `'\\''`)}'`).join(" ");
  const { status, stdout } = spawnSync("sh", ["-c", `${command} 2>&1`], {
    cwd: root,
    encoding: "utf8",
    env: { ...process.env, COLUMNS: String(COLUMNS) },
  });
  if (status !== 0) throw new Error(`${args.join(" ")} ended with ${String(status)}:\n${stdout}`);
  return stdout;
}

/** The terminal as a page: the prompt, what was typed, and what came of it, without this machine's paths. */
function terminalPage(typed: string, output: string): string {
  const text = output.replaceAll(root, "/home/you/gridmeter").trimEnd();
  const escaped = text.replaceAll("&", "&amp;").replaceAll("<", "&lt;");
  return `<!doctype html><meta charset="utf-8"><style>body{margin:0;background:#16191d;width:max-content}
pre{margin:0;padding:18px 22px;width:calc(${COLUMNS}ch + 44px);box-sizing:border-box;white-space:pre-wrap;color:#dfe3e8;font:14px/1.25 "DejaVu Sans Mono",monospace}b{color:#7fd1a3}</style>
<pre><b>$ ${typed}</b>\n${escaped}</pre>`;
}

async function picture(
  browser: Browser,
  page: string,
  name: string,
  size: { readonly width: number; readonly height?: number },
): Promise<void> {
  const opened = await openPage(browser, page, size.width, "light");
  if (opened.errors.length > 0) throw new Error(`${page}: ${opened.errors.join(", ")}`);
  const file = join(images, `${name}.png`);
  if (size.height === undefined) {
    const shown = await opened.page.$("pre");
    if (shown === null) throw new Error(`${page} has no text`);
    await shown.screenshot({ path: file });
  } else await opened.page.screenshot({ path: file, clip: { x: 0, y: 0, width: size.width, height: size.height } });
  await opened.page.close();
  process.stderr.write(`pictures: wrote docs/images/${name}.png (${(await readFile(file)).length} bytes)\n`);
}

await mkdir(images, { recursive: true });
const demo = run("scripts/demo.ts");
await mkdir(scratch, { recursive: true });
const report = join(scratch, "report.html");
const terminal = join(scratch, "terminal.html");
run("bin/gridmeter.ts", "report", "--demo", "--html", report);
await writeFile(terminal, terminalPage("npm run demo", demo));
const browser = await startBrowser();
try {
  await picture(browser, report, "report", { width: 1280, height: 1180 });
  await picture(browser, terminal, "demo", { width: 1280 });
} finally {
  await browser.close();
  await rm(scratch, { recursive: true, force: true });
}
