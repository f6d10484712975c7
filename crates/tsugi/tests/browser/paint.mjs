// How soon the dashboard is painted with 20 servers of 50 tools each, as the browser itself says.
//
//   scripts/browser-tests paint [RUNS]      with target/debug/tsugi; TSUGI_PROGRAM names another
//
// Each run is a new profile of the browser, so nothing comes from its cache. A busy machine makes every number larger.
import path from "node:path";
import { closeBrowser, Gateway, here, openBrowser, openWindow } from "./world.mjs";

const SERVERS = 20;
const RUNS = Number(process.argv[2] ?? 15);

const entry = (_, at) => `  - { name: s${at}, command: "${process.execPath}", args: ["${path.join(here, "many.mjs")}", "50"] }`;
const config = `servers:\n${Array.from({ length: SERVERS }, entry).join("\n")}\n`;

async function paint(gateway) {
  const page = await openWindow();
  await page.goto(gateway.url);
  await page.locator(".server-row").nth(SERVERS - 1).waitFor();
  const told = await page.evaluate(async () => {
    const paints = Object.fromEntries(performance.getEntriesByType("paint").map((one) => [one.name, one.startTime]));
    const largest = await new Promise((resolve) => {
      new PerformanceObserver((list) => resolve(list.getEntries().at(-1).startTime)).observe({ type: "largest-contentful-paint", buffered: true });
    });
    return { first: paints["first-paint"], servers: largest };
  });
  await page.context().close();
  return told;
}

/** The middle one, and the smallest and largest. */
function summary(numbers) {
  const sorted = numbers.map(Math.round).sort((one, other) => one - other);
  return `median ${sorted[Math.floor(sorted.length / 2)]} ms (${sorted[0]} to ${sorted.at(-1)})`;
}

await openBrowser();
const gateway = await Gateway.start(config);
try {
  for (;;) {
    const { servers } = await (await fetch(`${gateway.url}/api/overview`)).json();
    if (servers.every((server) => server.tools === 50)) break;
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
  const told = [];
  for (let run = 0; run < RUNS; run += 1) told.push(await paint(gateway));
  console.log(`first paint: ${summary(told.map((one) => one.first))}`);
  console.log(`all ${SERVERS} servers shown: ${summary(told.map((one) => one.servers))}`);
} finally {
  await gateway.stop();
  await closeBrowser();
}
