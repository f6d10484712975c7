// What it takes somebody new from a clone to a first tool call: keys pressed and seconds waited, step by step.
//
//   scripts/dashboard newcomer      with target/debug/tsugi; TSUGI_PROGRAM names another
//
// Compiling is not in it. A step's seconds are the waiting, not the typing: keys are pressed without a pause.
import { mkdtempSync, rmSync } from "node:fs";
import os from "node:os";
import path from "node:path";
import { closeBrowser, Gateway, openBrowser, openWindow, output, root } from "./world.mjs";

const steps = [];

async function step(name, keys, wait) {
  const began = performance.now();
  const given = await wait();
  steps.push({ name, keys, seconds: (performance.now() - began) / 1000 });
  return given;
}

/** Types a text; gives how many keys that was. */
async function type(page, text) {
  await page.keyboard.type(text);
  return text.length;
}

const CALL = '{"toolName": "calculate-bmi", "input": {"weight_kg": 70, "height_m": 1.75}}';

const folder = mkdtempSync(path.join(os.tmpdir(), "tsugi-newcomer-"));
await openBrowser();
let gateway;
try {
  await step("`git clone` of a local copy", 0, () => output("git", ["clone", "--quiet", root, path.join(folder, "tsugi")], {}));
  gateway = await step("`cargo run --release -- serve`, once built: until it listens", "cargo run --release -- serve\n".length, () => Gateway.start());
  await step("a first tool call with the `curl` line above, pasted", 2, () => output("curl", ["-sf", `${gateway.url}/mcp/call`, "-H", "Content-Type: application/json", "-d", CALL], {}));
  const page = await openWindow();
  await step("or in the browser: the address, until the dashboard shows its servers", "localhost:7600\n".length, async () => {
    await page.goto(gateway.url);
    await page.locator(".server-row").nth(1).waitFor();
  });
  let keys = 0;
  const began = performance.now();
  keys += await type(page, "/");
  await page.getByRole("combobox").waitFor();
  keys += await type(page, "echo");
  await page.getByRole("option", { name: /echo/ }).first().waitFor();
  await page.keyboard.press("Enter");
  await page.locator(".fields input:focus, .fields textarea:focus").waitFor();
  keys += 1 + (await type(page, "hi"));
  await page.keyboard.press("Control+Enter");
  await page.locator(".result").getByText("hi").first().waitFor();
  steps.push({ name: "`/`, `echo`, Enter, `hi`, Ctrl+Enter: until the result is there", keys: keys + 2, seconds: (performance.now() - began) / 1000 });
  console.log("| step | keys | seconds |\n| --- | --- | --- |");
  for (const one of steps) console.log(`| ${one.name} | ${one.keys} | ${one.seconds.toFixed(1)} |`);
} finally {
  await gateway?.stop();
  await closeBrowser();
  rmSync(folder, { recursive: true, force: true });
}
