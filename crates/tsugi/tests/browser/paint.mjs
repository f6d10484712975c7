// How soon the dashboard is painted with 20 servers of 50 tools each, and the board with 10,000 tasks, as the browser
// itself says.
//
//   scripts/dashboard paint [RUNS]      with target/debug/tsugi; TSUGI_PROGRAM names another
//
// Each run is a new profile of the browser, so nothing comes from its cache. A busy machine makes every number larger,
// so a page with nothing but two letters on it is painted in between: what the browser itself needs.
import path from "node:path";
import { fillMany } from "./team.mjs";
import { closeBrowser, Gateway, here, openBrowser, openWindow } from "./world.mjs";

const SERVERS = 20;
const TASKS = 10_000;
const RUNS = Number(process.argv[2] ?? 15);

const entry = (_, at) => `  - { name: s${at}, command: "${process.execPath}", args: ["${path.join(here, "many.mjs")}", "50"] }`;
const config = `servers:\n${Array.from({ length: SERVERS }, entry).join("\n")}\n`;

/** When the browser has painted something of a page. */
function firstPaint(page) {
  return page.evaluate(async () => {
    for (;;) {
      const found = performance.getEntriesByType("paint").find((one) => one.name === "first-paint");
      if (found) return found.startTime;
      await new Promise(requestAnimationFrame);
    }
  });
}

async function paintNothing(gateway) {
  const page = await openWindow();
  await page.goto(`${gateway.url}/healthz`);
  const first = await firstPaint(page);
  await page.context().close();
  return first;
}

/** Opens a page until the last of what it tells is there: when the first and the largest of it were painted. */
async function paint(address, last) {
  const page = await openWindow();
  await page.goto(address);
  await last(page).waitFor();
  const first = await firstPaint(page);
  const whole = await page.evaluate(() => new Promise((resolve) => {
    new PerformanceObserver((list) => resolve(list.getEntries().at(-1).startTime)).observe({ type: "largest-contentful-paint", buffered: true });
  }));
  await page.context().close();
  return { first, whole };
}

/** The middle one, and the smallest and largest. */
function summary(numbers) {
  const sorted = numbers.map(Math.round).sort((one, other) => one - other);
  return `median ${sorted[Math.floor(sorted.length / 2)]} ms (${sorted[0]} to ${sorted.at(-1)})`;
}

/** Paints a page again and again, and one with nothing on it in between. */
async function measure(gateway, address, last, what) {
  const [nothing, told] = [[], []];
  for (let run = 0; run < RUNS; run += 1) {
    nothing.push(await paintNothing(gateway));
    told.push(await paint(address, last));
  }
  console.log(`a page with two letters: ${summary(nothing)}`);
  console.log(`first paint: ${summary(told.map((one) => one.first))}`);
  console.log(`${what} shown: ${summary(told.map((one) => one.whole))}`);
}

async function dashboard() {
  const gateway = await Gateway.start(config);
  try {
    for (;;) {
      const { servers } = await (await fetch(`${gateway.url}/api/overview`)).json();
      if (servers.every((server) => server.tools === 50)) break;
      await new Promise((resolve) => setTimeout(resolve, 100));
    }
    await measure(gateway, gateway.url, (page) => page.locator(".server-row").nth(SERVERS - 1), `all ${SERVERS} servers`);
  } finally {
    await gateway.stop();
  }
}

async function board() {
  const gateway = await Gateway.start("servers: [{ name: pm, builtin: pm }]\n");
  try {
    await fillMany(gateway, TASKS);
    const last = (page) => page.locator(".column[data-status=todo] .card").nth(39);
    await measure(gateway, `${gateway.url}/#/board?project=BIG`, last, `the board of ${TASKS} tasks`);
  } finally {
    await gateway.stop();
  }
}

await openBrowser();
try {
  await dashboard();
  await board();
} finally {
  await closeBrowser();
}
