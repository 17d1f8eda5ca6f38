import { launch, type Browser, type Page } from "puppeteer-core";
import { ensureTools } from "../../scripts/setup.ts";

/** A headless Chromium; the caller closes it. */
export async function startBrowser(): Promise<Browser> {
  const executablePath = ensureTools(["chromium"]).get("chromium");
  if (executablePath === undefined) throw new Error("there is no Chromium");
  return launch({
    executablePath,
    // Its sandbox wants user namespaces or a user other than root, which containers of tests often do not have. It opens only our own pages.
    args: ["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars"],
  });
}

export type Scheme = "light" | "dark";
export type Opened = {
  readonly page: Page;
  /** errors of scripts and of the console */
  readonly errors: readonly string[];
  /** addresses that were asked for, but the page's own */
  readonly requests: readonly string[];
};

/** Opens a file as a reader with that screen and colour scheme would. */
export async function openPage(browser: Browser, file: string, width: number, scheme: Scheme): Promise<Opened> {
  const page = await browser.newPage();
  const errors: string[] = [];
  const requests: string[] = [];
  page.on("pageerror", (error) => errors.push(String(error)));
  page.on("console", (message) => {
    if (message.type() === "error" || message.type() === "warn") errors.push(message.text());
  });
  const url = `file://${file}`;
  page.on("request", (request) => {
    if (request.url() !== url) requests.push(request.url());
  });
  await page.emulateMediaFeatures([{ name: "prefers-color-scheme", value: scheme }]);
  await page.setViewport({ width, height: 900, deviceScaleFactor: width < 800 ? 2 : 1 });
  await page.goto(url);
  return { page, errors, requests };
}
