// The dashboard as people use it, in a real browser: each test is a story with a gateway of its own.
import { strict as assert } from "node:assert";
import path from "node:path";
import { after, before, test } from "node:test";
import { assertQuiet, closeBrowser, here, inspect, openBrowser, openWindow, output, withGateway } from "./world.mjs";

before(openBrowser);
after(closeBrowser);

const OPEN = `
servers:
  - name: pm
    builtin: pm
gateway:
  adminApi: { enabled: true, allowCommands: true }
`;

/** The row of a server in the overview. */
const row = (page, name) => page.locator(".server-row", { has: page.getByRole("link", { name, exact: true }) });

async function addTables(page) {
  await page.getByRole("button", { name: "Add a server" }).click();
  const dialog = page.getByRole("dialog", { name: "Add a server" });
  await dialog.getByLabel("Name", { exact: true }).fill("tables");
  await dialog.getByLabel("Command", { exact: true }).fill(`'${process.execPath}' '${path.join(here, "server.mjs")}'`);
  await inspect(page, "add-server");
  await dialog.getByRole("button", { name: "Add a server" }).click();
  await page.getByRole("heading", { name: "tables" }).waitFor();
  await page.getByText(/It was saved to .*tsugi\.yaml/).waitFor();
  await page.getByRole("link", { name: "book_table" }).waitFor();
}

async function callTool(page, server, tool, values) {
  await page.goto(`${new URL(page.url()).origin}/#/try/${server}/tool/${tool}`);
  await page.getByRole("heading", { name: tool }).waitFor();
  for (const [label, value] of Object.entries(values)) await page.locator(".fields").getByLabel(new RegExp(`^${label}\\s`)).fill(value);
  await page.getByRole("button", { name: "Call", exact: true }).click();
}

/** Ticks a box that is ticked only once the server has agreed; on a slow machine that is after the click. */
async function tick(page, label) {
  const box = page.getByLabel(label);
  for (let left = 20; left > 0 && !(await box.isChecked()); left--) {
    await box.click();
    await page.locator("input:checked").first().waitFor({ timeout: 3000 }).catch(() => {});
  }
  assert.ok(await box.isChecked(), `${label} is not ticked`);
}

test("from nothing: the page opens, shows the built-in server, and a tool is tried by keyboard", async () => {
  await withGateway(undefined, async (gateway) => {
    const page = await openWindow();
    await page.goto(gateway.url);
    await row(page, "demo").getByText("connected").waitFor();
    await page.keyboard.press("?");
    await page.getByRole("dialog", { name: "Keys" }).waitFor();
    await inspect(page, "keys");
    await page.keyboard.press("Escape");
    await page.getByRole("dialog").waitFor({ state: "detached" });
    await page.keyboard.press("/");
    await page.getByRole("combobox").fill("echo");
    await page.getByRole("option", { name: /echo/ }).first().waitFor();
    await inspect(page, "search");
    await page.keyboard.press("Enter");
    await page.getByLabel(/^message/).fill("hello from the keyboard");
    await page.keyboard.press("Control+Enter");
    await page.locator(".result").getByText("hello from the keyboard").first().waitFor();
    await page.keyboard.press("Escape");
    await page.locator("main").focus();
    await page.keyboard.press("g");
    await page.keyboard.press("c");
    await page.getByRole("cell", { name: "echo" }).waitFor();
    assertQuiet(page);
    await page.context().close();
  });
});

test("a server is added, asks back in the middle of a call, crashes and comes back, and its calls are found", async () => {
  await withGateway(OPEN, async (gateway) => {
    const page = await openWindow({ permissions: ["clipboard-read", "clipboard-write"] });
    await page.goto(gateway.url);
    await row(page, "pm").getByText("connected").waitFor();
    await addTables(page);
    // A name that wants to be run is text.
    await page.getByRole("link", { name: "<img src=x onerror=alert(1)>" }).waitFor();
    await inspect(page, "server");

    // The form complains while typing and takes a union, a list and an object.
    await page.goto(`${gateway.url}/#/try/tables/tool/book_table`);
    await page.getByLabel(/^restaurant/).fill("S");
    await page.getByText("At least 2 characters.").waitFor();
    await page.getByLabel(/^restaurant/).fill("Sakura");
    await page.getByLabel(/^last4/).fill("12");
    await page.getByText("This must match").waitFor();
    await page.getByLabel("Kind", { exact: true }).selectOption("Cash");
    await page.getByRole("button", { name: "wishes" }).click();
    await page.getByRole("button", { name: "Add wishes" }).click();
    await page.getByLabel(/^1\s+required/).fill("a quiet corner");
    await page.getByRole("button", { name: "contact" }).click();
    await page.getByLabel(/^name\s+required/).fill("Mio");
    await page.getByRole("tab", { name: "JSON" }).click();
    assert.deepEqual(JSON.parse(await page.getByLabel("Arguments as JSON").inputValue()), { restaurant: "Sakura", people: 2, vegetarian: false, payment: { kind: "cash" }, wishes: ["a quiet corner"], contact: { name: "Mio" } });
    await page.getByRole("tab", { name: "Form" }).click();

    // The question is answered in the page.
    await page.getByRole("button", { name: "Call", exact: true }).click();
    const question = page.getByRole("region", { name: "tables asks you" });
    await question.getByText("Is the bar fine?").waitFor();
    await question.getByRole("button", { name: "Answer", exact: true }).click();
    await question.getByText("Required.").waitFor();
    await question.getByLabel(/^Name for the booking/).fill("Mio");
    await inspect(page, "try");
    await question.getByRole("button", { name: "Answer", exact: true }).click();
    await page.getByText("fits its schema", { exact: true }).waitFor();
    await page.getByRole("img", { name: "Picture from the result" }).waitFor();
    await inspect(page, "result");

    // Declined, it is the tool's own error.
    await page.getByRole("button", { name: "Call", exact: true }).click();
    await question.getByRole("button", { name: "Decline" }).click();
    await page.getByText("the tool reports an error").waitFor();

    // Progress and cancel.
    await callTool(page, "tables", "count", { to: "500" });
    await page.getByText(/^at \d+$/).waitFor();
    await page.getByRole("button", { name: "Cancel" }).click();
    await page.getByText("Cancelled. The server was notified.").waitFor();

    // What is copied does the same when it is run.
    await callTool(page, "tables", "echo", { message: "it's copied" });
    await page.locator(".result").getByText("it's copied").waitFor();
    await page.getByText("Copy as", { exact: true }).click();
    const curl = await page.locator(".copy-as pre").innerText();
    assert.match(await output("bash", ["-c", curl], {}), /it's copied/);
    await page.getByRole("tab", { name: "tsugi call" }).click();
    const words = (await page.locator(".copy-as pre").innerText()).replace(/^tsugi/, '"$TSUGI"');
    assert.match(await output("bash", ["-c", words], { env: { ...gateway.environment(), TSUGI: gateway.child.spawnfile } }), /it's copied/);

    // It dies in the middle of a call, and comes back by itself.
    const watching = await openWindow();
    await watching.goto(gateway.url);
    await row(watching, "tables").getByText("connected").waitFor();
    const log = await openWindow();
    await log.goto(`${gateway.url}/#/servers/tables?tab=log`);
    await log.getByText("tables: ready").waitFor();
    await callTool(page, "tables", "crash", {});
    await page.getByRole("alert").getByText("SERVER_CRASHED").waitFor();
    await row(watching, "tables").locator(".num", { hasText: /^Restarts1$/ }).waitFor();
    await row(watching, "tables").getByText("connected").waitFor();
    await callTool(page, "tables", "echo", { message: "back again" });
    await page.locator(".result").getByText("back again").waitFor();
    await log.getByText("fatal: somebody asked for it").waitFor();
    await log.getByText("tables: ready").nth(1).waitFor();
    await inspect(log, "log");
    // Who comes later can still read why it crashed.
    await log.reload();
    await log.getByText("fatal: somebody asked for it").waitFor();
    await log.getByText(/process \d+ ended, process \d+ began/).waitFor();
    assertQuiet(log);
    await log.context().close();
    await page.goto(`${gateway.url}/#/servers/tables?tab=process`);
    await page.getByText("server.mjs").first().waitFor();
    await inspect(page, "process");

    // Stop and start, with the outcome said.
    await row(watching, "tables").getByRole("button", { name: "Stop tables" }).click();
    await watching.getByText(/tables was stopped/).waitFor();
    await row(watching, "tables").getByText("stopped", { exact: true }).waitFor();
    await inspect(watching, "overview-stopped");
    await row(watching, "tables").getByRole("button", { name: "Start tables" }).click();
    await row(watching, "tables").getByText("connected").waitFor();
    await inspect(watching, "overview");

    // Calls, narrowed down.
    await page.goto(`${gateway.url}/#/calls`);
    await page.getByRole("cell", { name: "book_table" }).first().waitFor();
    await inspect(page, "calls");
    await page.getByRole("searchbox", { name: "Tool" }).fill("echo");
    await page.getByRole("cell", { name: "book_table" }).first().waitFor({ state: "detached" });
    assert.deepEqual([...new Set(await page.locator("tbody td:nth-child(3)").allInnerTexts())], ["echo"]);
    await page.getByRole("button", { name: "Clear the filter" }).click();
    await page.getByRole("combobox", { name: "Outcome" }).selectOption("failed");
    await page.getByRole("link", { name: "crash" }).first().click();
    const detail = page.getByRole("complementary", { name: "Call" });
    await detail.getByText("SERVER_CRASHED").waitFor();
    await detail.getByText("Where the time went").waitFor();
    await inspect(page, "call");
    await page.goto(`${gateway.url}/#/charts`);
    await page.getByRole("img", { name: /Calls per second/ }).waitFor();
    await inspect(page, "charts");

    // The same in Japanese, remembered.
    await page.getByRole("button", { name: "日本語で表示" }).click();
    await page.getByRole("heading", { name: "グラフ" }).waitFor();
    await page.reload();
    await page.getByRole("heading", { name: "グラフ" }).waitFor();
    assert.equal(await page.locator("html").getAttribute("lang"), "ja");
    await page.goto(`${gateway.url}/#/`);
    await inspect(page, "overview-ja");
    assertQuiet(watching);
    assertQuiet(page);
    await page.context().close();
    await watching.context().close();
  });
});

test("what is sent is what the screen shows: broken JSON is not sent, and a removal takes away the right item", async () => {
  await withGateway(OPEN, async (gateway) => {
    const page = await openWindow();
    await page.goto(gateway.url);
    await addTables(page);
    await page.goto(`${gateway.url}/#/try/tables/tool/pack`);
    const call = page.getByRole("button", { name: "Call", exact: true });
    const result = page.locator(".result");
    const refused = page.getByText("Nothing was sent: an argument is not JSON yet.");

    // In the editor: first what parses, then what does not.
    await page.getByRole("tab", { name: "JSON" }).click();
    await page.getByLabel("Arguments as JSON").fill('{"note": "older"}');
    await page.getByLabel("Arguments as JSON").fill('{"note": "newer"');
    await call.click();
    await refused.waitFor();
    assert.equal(await result.count(), 0);
    await page.getByLabel("Arguments as JSON").fill('{"note": "newer"}');
    await call.click();
    await result.getByText('packed {"note":"newer"}').waitFor();

    // In a field of the form.
    await page.getByRole("tab", { name: "Form" }).click();
    await page.getByRole("button", { name: "Close" }).first().click();
    await page.getByLabel(/^note\s/).fill('{"older": 1}');
    await page.getByLabel(/^note\s/).fill('{"older": 1, ');
    await page.keyboard.press("Control+Enter");
    await refused.waitFor();
    await page.getByLabel(/^note\s/).fill("1");

    // Items of two kinds: the first is taken away, the second stays what it is.
    await page.getByRole("button", { name: "parts" }).click();
    for (let left = 2; left > 0; left -= 1) await page.getByRole("button", { name: "Add parts" }).click();
    await page.getByLabel("Kind", { exact: true }).nth(1).selectOption("Weight");
    await page.getByRole("button", { name: "extras" }).click();
    for (let left = 2; left > 0; left -= 1) await page.getByRole("button", { name: "Add extras" }).click();
    const extras = page.getByRole("group", { name: /^extras/ });
    await extras.locator("textarea").nth(0).fill('"first"');
    await extras.locator("textarea").nth(1).fill('"second"');
    await extras.getByRole("button", { name: "Remove 1" }).click();
    assert.equal(await extras.locator("textarea").inputValue(), '"second"');
    const parts = page.getByRole("group", { name: /^parts/ });
    await parts.getByRole("button", { name: "Remove 1" }).first().click();
    assert.equal(await parts.getByLabel("Kind", { exact: true }).evaluate((select) => select.selectedOptions[0].text), "Weight");
    await parts.locator("input").fill("7");
    await call.click();
    await result.getByText('packed {"note":1,"parts":[7],"extras":["second"]}').waitFor();
    assertQuiet(page);
    await page.context().close();
  });
});

test("two windows move one task at once: one wins, the other is told, and nothing is overwritten", async () => {
  await withGateway(OPEN, async (gateway) => {
    const first = await openWindow();
    await first.goto(`${gateway.url}/#/board`);
    await first.getByText("No projects yet.").waitFor();
    await first.getByRole("button", { name: "New project" }).click();
    await first.getByLabel("Name", { exact: true }).fill("Web shop");
    await first.getByLabel("Key", { exact: true }).fill("WEB");
    await first.getByRole("button", { name: "Create" }).click();
    for (const title of ["Choose a payment provider", "Write the imprint"]) {
      await first.getByRole("button", { name: "New task" }).click();
      await first.getByRole("dialog").getByLabel("Title").fill(title);
      await first.getByRole("dialog").getByLabel("Acceptance").fill("two offers compared");
      await first.getByRole("button", { name: "Create" }).click();
      await first.getByRole("link", { name: title }).waitFor();
    }
    const second = await openWindow();
    await second.goto(`${gateway.url}/#/board`);
    const card = (page, status) => page.locator(`.column[data-status=${status}] .card`, { hasText: "WEB-1" });
    await card(second, "todo").waitFor();

    // The second window's move is on its way when the first one's arrives.
    let release;
    const held = new Promise((resolve) => {
      void second.route("**/servers/pm/mcp", async (route) => {
        if (!route.request().postData()?.includes("update_task_status")) return route.continue();
        resolve();
        await new Promise((go) => (release = go));
        await route.continue();
      });
    });
    await card(second, "todo").getByRole("link").press("Shift+ArrowLeft");
    await held;
    await card(first, "todo").getByRole("link").press("Shift+ArrowRight");
    await card(first, "in_progress").waitFor();
    release();
    await second.getByText("WEB-1 was changed while you looked at it.").waitFor();
    await second.getByText("Your move to Backlog was not made.").waitFor();
    await inspect(second, "board-conflict");
    await second.unroute("**/servers/pm/mcp");
    await second.getByRole("button", { name: "Leave it so" }).click();
    await card(second, "in_progress").waitFor();
    await card(first, "in_progress").waitFor();

    // A hold is taken away from whoever has it, with a reason, and taken again.
    await first.locator(".strip-agents").click();
    await first.locator(".agents").getByRole("button", { name: "Take WEB-1 away" }).click();
    await first.getByLabel("Why?").fill("its holder went home");
    await first.getByRole("button", { name: "OK" }).click();
    await card(second, "todo").waitFor();
    await card(second, "todo").getByRole("link").press("Shift+ArrowRight");
    await card(first, "in_progress").waitFor();

    // Two people edit one task: the later one sees both versions and decides.
    for (const page of [first, second]) {
      await page.goto(`${gateway.url}/#/board/WEB-1`);
      await page.getByRole("button", { name: "Edit" }).click();
    }
    await first.getByLabel("Title").fill("Choose two payment providers");
    await second.getByLabel("Title").fill("Choose no payment provider");
    await first.getByRole("button", { name: "Save" }).click();
    await first.getByRole("heading", { name: "Choose two payment providers" }).waitFor();
    await second.getByText("This task was changed while you edit it.").waitFor();
    await second.getByRole("button", { name: "Save" }).click();
    await second.getByText("There is a newer version").waitFor();
    await second.getByRole("cell", { name: "Choose two payment providers" }).waitFor();
    await inspect(second, "task-conflict");
    await second.getByRole("button", { name: "Keep the current version" }).click();
    await second.getByRole("heading", { name: "Choose two payment providers" }).waitFor();

    // Comment, check, review, approve; the other window follows.
    await first.getByPlaceholder("Write a note").fill("Only with SEPA.");
    await first.getByLabel("Kind of note").selectOption("decision");
    await first.getByRole("button", { name: "Add", exact: true }).click();
    await second.locator(".contexts").getByText("Only with SEPA.").waitFor();
    await first.locator(".contexts").getByText("Only with SEPA.").waitFor();
    await tick(first, "two offers compared");
    await first.getByLabel("Status").selectOption("Review");
    await first.getByLabel("What came out?").fill("Two were chosen.");
    await first.getByRole("button", { name: "OK" }).click();
    await second.locator(".strip-needs").click();
    await second.locator(".needs-you").getByRole("link", { name: /WEB-1/ }).waitFor();
    await inspect(second, "task");
    await second.getByRole("button", { name: "Close", exact: true }).first().click();
    await second.locator(".needs-you").getByRole("button", { name: /Approve/ }).click();
    await card(second, "done").waitFor();
    await card(first, "done").waitFor();
    await inspect(second, "board");
    await second.getByRole("tab", { name: "Timeline" }).click();
    await second.locator(".events").getByText("finished").or(second.locator(".events").getByText("reviewed")).or(second.locator(".events").getByText("approved")).first().waitFor();
    await inspect(second, "timeline");
    assertQuiet(first);
    assertQuiet(second);
    await first.context().close();
    await second.context().close();
  });
});

test("with keys: a wrong one is refused, an admin may order, a read-only key sees everything and touches nothing, and out is out", async () => {
  await withGateway(undefined, async (gateway) => {
    const admin = (await gateway.run("key", "add", "ops", "--admin")).trim();
    const user = (await gateway.run("key", "add", "ann")).trim();
    const reader = (await gateway.run("key", "add", "eve", "--read-only")).trim();
    const page = await openWindow();
    // The running gateway follows the keys as soon as it has seen the file.
    await page.goto(gateway.url);
    for (;;) {
      if (await page.getByRole("heading", { name: "Sign in" }).isVisible()) break;
      await page.reload();
      await page.locator("h1").first().waitFor();
    }
    page.complaints.length = 0;
    await inspect(page, "sign-in");
    await page.getByLabel("Key", { exact: true }).fill("tsugi_wrong");
    await page.getByRole("button", { name: "Sign in" }).click();
    await page.getByText("This key is not known here.").waitFor();
    assertQuiet(page, /401/);

    await page.getByLabel("Key", { exact: true }).fill(admin);
    await page.getByRole("button", { name: "Sign in" }).click();
    await row(page, "demo").getByText("connected").waitFor();
    await row(page, "demo").getByRole("button", { name: "Restart demo" }).click();
    await page.getByText(/demo was restarted/).waitFor();
    const cookie = (await page.context().cookies()).find((one) => one.name === "tsugi_session");
    assert.ok(cookie?.httpOnly && cookie.sameSite === "Strict", JSON.stringify(cookie));
    // Another page that has the cookie but not the secret of the page may not order.
    const forged = await page.context().request.post(`${gateway.url}/servers/demo/stop`, { headers: { origin: gateway.url } });
    assert.equal(forged.status(), 403);
    await page.goto(`${gateway.url}/#/board`);
    await page.getByRole("button", { name: "New project" }).click();
    await page.getByLabel("Name", { exact: true }).fill("Web shop");
    await page.getByLabel("Key", { exact: true }).fill("WEB");
    await page.getByRole("button", { name: "Create" }).click();
    await page.getByRole("button", { name: "New task" }).click();
    await page.getByRole("dialog").getByLabel("Title").fill("Look at me");
    await page.getByRole("button", { name: "Create" }).click();
    await page.getByRole("link", { name: /WEB-1/ }).first().click();
    await page.getByPlaceholder("Write a note").fill("a note for the reader");
    await page.getByRole("button", { name: "Add", exact: true }).click();
    await page.locator(".contexts").getByText("a note for the reader").waitFor();
    await page.goto(`${gateway.url}/#/`);
    await page.getByRole("button", { name: "Sign out" }).click();
    await page.getByRole("heading", { name: "Sign in" }).waitFor();
    assert.equal((await page.context().request.get(`${gateway.url}/api/overview`)).status(), 401);

    // Somebody who may call tools but not order servers about is told so by the buttons.
    await page.getByLabel("Key", { exact: true }).fill(user);
    await page.getByRole("button", { name: "Sign in" }).click();
    await row(page, "demo").getByText("connected").waitFor();
    await row(page, "demo").getByRole("button", { name: "Restart demo" }).press("Enter");
    await page.getByText("This needs an admin key.").first().waitFor();
    await page.getByRole("button", { name: "Sign out" }).click();
    await page.getByRole("heading", { name: "Sign in" }).waitFor();

    // Who may only look sees the servers, the board, a task and the timeline, and touches nothing.
    await page.getByLabel("Key", { exact: true }).fill(reader);
    await page.getByRole("button", { name: "Sign in" }).click();
    await row(page, "demo").getByText("connected").waitFor();
    await page.getByText("You are signed in with a read-only key").waitFor();
    assert.equal(await page.getByRole("button", { name: "Add a server" }).getAttribute("aria-disabled"), "true");
    await inspect(page, "overview-reader");
    await page.goto(`${gateway.url}/#/try/demo/tool/echo`);
    await page.getByLabel(/^message/).fill("hello");
    await page.getByRole("button", { name: "Call", exact: true }).press("Enter");
    await page.getByText("Your key is read-only").first().waitFor();
    await page.goto(`${gateway.url}/#/board`);
    await page.getByRole("link", { name: /WEB-1/ }).first().waitFor();
    await inspect(page, "board-reader");
    await page.getByRole("link", { name: /WEB-1/ }).first().press("Shift+ArrowRight");
    await page.getByRole("link", { name: /WEB-1/ }).first().click();
    await page.getByRole("heading", { name: "Look at me" }).waitFor();
    await page.locator(".contexts").getByText("a note for the reader").waitFor();
    assert.ok(await page.getByLabel("Status").isDisabled());
    await page.getByRole("button", { name: "Edit" }).press("Enter");
    await page.getByText("Your key is read-only").first().waitFor();
    await inspect(page, "task-reader");
    await page.getByRole("button", { name: "Close", exact: true }).first().click();
    await page.getByRole("tab", { name: "Timeline" }).click();
    await page.locator(".events").getByText("created").first().waitFor();
    // Another page with the cookie may not change anything either.
    const forgedMove = await page.context().request.post(`${gateway.url}/servers/pm/mcp`, { headers: { origin: gateway.url, "content-type": "application/json" }, data: "{}" });
    assert.equal(forgedMove.status(), 403);
    await page.getByRole("button", { name: "Sign out" }).click();
    await page.getByRole("heading", { name: "Sign in" }).waitFor();
    assertQuiet(page, /401|403/);
    await page.context().close();
  });
});
