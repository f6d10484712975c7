// What an open dashboard costs the gateway while 1,000 calls a second stream to it, and whether the page stays quick.
//
//   scripts/dashboard stream [TURNS]      with target/debug/tsugi; TSUGI_PROGRAM names another
//
// Turns with a page and turns without take turns, so that what else the machine does falls on both alike.
import { readdirSync, readFileSync } from "node:fs";
import http from "node:http";
import { closeBrowser, Gateway, openBrowser, openWindow } from "./world.mjs";

const RATE = 1000;
const SECONDS = 4;
const TURNS = Number(process.argv[2] ?? 6);
const CALL = JSON.stringify({ server: "demo", toolName: "echo", input: { message: "hello" } });
const agent = new http.Agent({ keepAlive: true, maxSockets: 32 });

function call(url) {
  return new Promise((resolve, reject) => {
    const asked = http.request(`${url}/mcp/call`, { method: "POST", agent, headers: { "content-type": "application/json" } }, (answer) => {
      answer.resume().on("end", () => (answer.statusCode === 200 ? resolve() : reject(new Error(`HTTP ${answer.statusCode}`))));
    });
    asked.on("error", reject).end(CALL);
  });
}

/** Processor time that the threads of a process have used, in milliseconds; /proc/PID/stat only counts by ten. */
function cpu(pid) {
  const used = (thread) => Number(readFileSync(`/proc/${pid}/task/${thread}/schedstat`, "utf8").split(" ")[0]);
  return readdirSync(`/proc/${pid}/task`).reduce((sum, thread) => sum + used(thread), 0) / 1e6;
}

/** Calls for a while, as many as wanted or as the machine can; gives microseconds of the gateway for each. */
async function load(gateway) {
  const before = cpu(gateway.child.pid);
  const began = performance.now();
  const calls = [];
  while (performance.now() - began < SECONDS * 1000) {
    const due = Math.floor(((performance.now() - began) / 1000) * RATE);
    while (calls.length < due) calls.push(call(gateway.url));
    await new Promise((resolve) => setTimeout(resolve, 5));
  }
  await Promise.all(calls);
  const seconds = (performance.now() - began) / 1000;
  return { micros: ((cpu(gateway.child.pid) - before) * 1000) / calls.length, rate: calls.length / seconds };
}

/** A page that lists calls and watches how long it takes to draw. */
async function openCalls(gateway) {
  const page = await openWindow();
  await page.goto(`${gateway.url}/#/calls`);
  await page.getByRole("heading", { name: "Calls" }).waitFor();
  await page.evaluate(() => {
    window.frames_ = [];
    let last = performance.now();
    const tick = () => { const now = performance.now(); window.frames_.push(now - last); last = now; requestAnimationFrame(tick); };
    requestAnimationFrame(tick);
  });
  return page;
}

const median = (numbers) => [...numbers].sort((one, other) => one - other)[Math.floor(numbers.length / 2)];

await openBrowser();
const gateway = await Gateway.start();
try {
  await load(gateway);
  const [alone, watched, frames] = [[], [], []];
  for (let turn = 0; turn < TURNS; turn += 1) {
    alone.push(await load(gateway));
    const page = await openCalls(gateway);
    watched.push(await load(gateway));
    frames.push(...(await page.evaluate(() => window.frames_)));
    await page.context().close();
  }
  const ratios = watched.map((one, at) => one.micros / alone[at].micros);
  const sorted = frames.sort((one, other) => one - other);
  console.log(`calls a second: ${Math.round(median(watched.map((one) => one.rate)))}`);
  console.log(`CPU of the gateway for each call: ${median(alone.map((one) => one.micros)).toFixed(0)} µs alone, ${median(watched.map((one) => one.micros)).toFixed(0)} µs with a page open; median of the ratios ${median(ratios).toFixed(3)}`);
  console.log(`frames of the page: median ${Math.round(median(sorted))} ms, 99 of 100 under ${Math.round(sorted[Math.floor(sorted.length * 0.99)])} ms`);
} finally {
  await gateway.stop();
  await closeBrowser();
  agent.destroy();
}
