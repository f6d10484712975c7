// A person with a browser: opens each address that stands on a line of standard input, and presses the button of each
// page until there is none.
//
//   node browser.mjs FOLDER      FOLDER gets a screenshot of every page
//
// Prints {"pages": [TITLE, …]} for each address. TSUGI_CHROMIUM is the program.
import { createInterface } from "node:readline";
import { chromium } from "playwright-core";

const [folder] = process.argv.slice(2);
const executablePath = process.env.TSUGI_CHROMIUM ?? "/usr/bin/chromium";
const browser = await chromium.launch({ executablePath, args: ["--no-sandbox", "--disable-gpu"] });
let count = 0;
for await (const address of createInterface({ input: process.stdin })) {
  // Another person each time: nothing is remembered from the last sign-in.
  const context = await browser.newContext();
  const page = await context.newPage();
  const pages = [];
  await page.goto(address);
  count += 1;
  for (let step = 1; step < 6; step += 1) {
    pages.push(await page.locator("h1").innerText());
    await page.screenshot({ path: `${folder}/sign-in-${count}-${step}.png` });
    const button = page.getByRole("button");
    if ((await button.count()) === 0) break;
    const before = page.url();
    await Promise.all([page.waitForURL((url) => String(url) !== before), button.first().click()]);
    await page.waitForLoadState();
  }
  console.log(JSON.stringify({ pages }));
  await context.close();
}
await browser.close();
