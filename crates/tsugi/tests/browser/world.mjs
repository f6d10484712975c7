// A gateway of its own for each story, a browser for all of them, and what every view is checked for.
import { spawn } from "node:child_process";
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { createServer } from "node:net";
import { once } from "node:events";
import os from "node:os";
import path from "node:path";
import { fileURLToPath } from "node:url";
import { strict as assert } from "node:assert";
import { chromium } from "playwright-core";

export const here = path.dirname(fileURLToPath(import.meta.url));
export const root = path.resolve(here, "../../../..");
export const pictures = process.env.TSUGI_PICTURES ?? path.join(root, "target/browser");
const axe = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
const program = path.resolve(process.env.TSUGI_PROGRAM ?? path.join(root, "target/debug/tsugi"));

mkdirSync(pictures, { recursive: true });

/** `tsugi serve` in a directory of its own, at a free port. */
export class Gateway {
  static async start(config, listen = "127.0.0.1:0") {
    const gateway = new Gateway();
    gateway.home = mkdtempSync(path.join(os.tmpdir(), "tsugi-browser-"));
    gateway.said = "";
    if (config !== undefined) writeFileSync(path.join(gateway.home, "tsugi.yaml"), config);
    gateway.child = spawn(program, ["serve", "--listen", listen], { cwd: gateway.home, env: gateway.environment(), stdio: ["ignore", "pipe", "pipe"] });
    gateway.ended = new Promise((resolve) => gateway.child.once("exit", resolve));
    gateway.url = await gateway.hear(/listening on (http:\S+)/);
    return gateway;
  }

  environment() {
    return { PATH: process.env.PATH, HOME: this.home, LANG: "C.UTF-8" };
  }

  /** Waits until the program has said something. */
  hear(pattern) {
    return new Promise((resolve, reject) => {
      const look = () => {
        const found = pattern.exec(this.said);
        if (found) resolve(found[1] ?? found[0]);
      };
      for (const stream of [this.child.stdout, this.child.stderr]) stream.setEncoding("utf8").on("data", (more) => { this.said += more; look(); });
      this.ended.then((code) => reject(new Error(`tsugi ended with ${code}:\n${this.said}`)));
    });
  }

  /** Starts another command of tsugi beside the gateway, with its standard streams as pipes. */
  start(...words) {
    return spawn(program, words, { cwd: this.home, env: this.environment(), stdio: ["pipe", "pipe", "inherit"] });
  }

  /** Runs another command of tsugi beside the gateway; gives what it printed. */
  run(...words) {
    return output(program, words, { cwd: this.home, env: this.environment() });
  }

  async stop() {
    this.child.kill("SIGTERM");
    const slow = setTimeout(() => this.child.kill("SIGKILL"), 10_000);
    await this.ended;
    clearTimeout(slow);
    rmSync(this.home, { recursive: true, force: true });
  }
}

/** Tells a story with a gateway of its own; a failure leaves pictures. */
export async function withGateway(config, story, listen) {
  const gateway = await Gateway.start(config, listen);
  try {
    await story(gateway);
  } catch (error) {
    await pictureFailure();
    throw error;
  } finally {
    await gateway.stop();
  }
}

/** A port that was free a moment ago, for a gateway that must know its own address before it starts. */
export async function freePort() {
  const server = createServer().listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address();
  server.close();
  await once(server, "close");
  return port;
}

/** What a program prints; its failure is an error with all it said. */
export function output(command, words, options) {
  return new Promise((resolve, reject) => {
    const child = spawn(command, words, { ...options, stdio: ["ignore", "pipe", "pipe"] });
    let out = "";
    let errors = "";
    child.stdout.setEncoding("utf8").on("data", (more) => (out += more));
    child.stderr.setEncoding("utf8").on("data", (more) => (errors += more));
    child.once("error", reject);
    child.once("exit", (code) => (code === 0 ? resolve(out) : reject(new Error(`${command} ended with ${code}: ${out}${errors}`))));
  });
}

let browser;
const open = new Set();

/** Pictures of every open window, for whoever looks into a failure. */
export async function pictureFailure() {
  let at = 0;
  for (const page of open) await page.screenshot({ path: path.join(pictures, `failed-${++at}.png`) }).catch(() => undefined);
}

export async function openBrowser() {
  browser = await chromium.launch({ executablePath: process.env.TSUGI_CHROMIUM ?? "/usr/bin/chromium", args: ["--no-sandbox", "--disable-gpu"] });
}

export async function closeBrowser() {
  await browser?.close();
}

/** A window, which remembers every complaint of the page. */
export async function openWindow(options = {}) {
  const context = await browser.newContext({ viewport: { width: 1360, height: 860 }, colorScheme: "light", locale: "en-GB", ...options });
  // While working on the page: its files from a directory instead of from the program.
  if (process.env.TSUGI_DIST) await context.route("**/assets/*", (route) => route.fulfill({ path: path.join(process.env.TSUGI_DIST, path.basename(new URL(route.request().url()).pathname)) }));
  const page = await context.newPage();
  // Long enough for a machine that does much else meanwhile.
  page.setDefaultTimeout(60_000);
  open.add(page);
  page.on("close", () => open.delete(page));
  page.complaints = [];
  page.on("console", (message) => { if (message.type() === "error") page.complaints.push(message.text()); });
  page.on("pageerror", (error) => page.complaints.push(String(error.stack ?? error)));
  return page;
}

/** The page said nothing on its console; `expected` takes out what the story provoked. */
export function assertQuiet(page, expected = null) {
  const rest = page.complaints.filter((one) => expected === null || !expected.test(one));
  assert.deepEqual(rest, []);
  page.complaints.length = 0;
}

/** axe finds nothing serious in what is shown. */
export async function assertAccessible(page, name) {
  await page.evaluate(axe);
  const found = await page.evaluate(() => window.axe.run(document, { resultTypes: ["violations"] }));
  const bad = found.violations.filter((one) => one.impact === "serious" || one.impact === "critical");
  assert.deepEqual(bad.map((one) => `${name}: ${one.impact} ${one.id} ${one.nodes.slice(0, 3).map((node) => node.html.slice(0, 160)).join(" | ")}`), []);
}

const LOOKS = [
  { name: "light-desktop", colorScheme: "light", viewport: { width: 1360, height: 860 } },
  { name: "dark-desktop", colorScheme: "dark", viewport: { width: 1360, height: 860 } },
  { name: "light-phone", colorScheme: "light", viewport: { width: 390, height: 844 } },
  { name: "dark-phone", colorScheme: "dark", viewport: { width: 390, height: 844 } },
];

/** Nobody has to scroll sideways. */
async function assertFits(page, name) {
  const overflow = await page.evaluate(() => {
    const rows = [...document.querySelectorAll(".server-row, .head, .filter, .facts")];
    const inner = rows.map((row) => row.scrollWidth - row.clientWidth);
    return Math.max(document.documentElement.scrollWidth - document.documentElement.clientWidth, ...inner);
  });
  assert.ok(overflow <= 1, `${name} is ${overflow} px wider than its place`);
}

/** Looks at one view in every dress: a picture for people, axe for everybody, and nothing wider than the window. */
export async function inspect(page, name) {
  const before = page.viewportSize();
  for (const look of LOOKS) {
    await page.emulateMedia({ colorScheme: look.colorScheme });
    await page.setViewportSize(look.viewport);
    await page.screenshot({ path: path.join(pictures, `${name}-${look.name}.png`) });
    await assertAccessible(page, `${name} ${look.name}`);
    await assertFits(page, `${name} ${look.name}`);
  }
  for (const width of [900, 1024, 1280]) {
    await page.setViewportSize({ width, height: 800 });
    await assertFits(page, `${name} at ${width}`);
  }
  await page.emulateMedia({ colorScheme: "light" });
  await page.setViewportSize(before);
}
