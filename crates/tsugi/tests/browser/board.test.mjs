// The board as people use it while ten agents work: every part of the page is a story that can fail.
import { strict as assert } from "node:assert";
import { readFile } from "node:fs/promises";
import { after, before, test } from "node:test";
import { assertAccessible, assertQuiet, closeBrowser, inspect, openBrowser, openWindow, pictures, withGateway } from "./world.mjs";
import { fillMany, fillTeam, ProcessAgent } from "./team.mjs";

before(openBrowser);
after(closeBrowser);

const PM = "servers: [{ name: pm, builtin: pm }]\n";
const MINUTE = 60_000;

const column = (page, status) => page.locator(`.column[data-status=${status}]`);
const card = (page, status, ref) => column(page, status).locator(".card", { has: page.locator(`.ref:text-is("${ref}")`) });
const refs = (page, status) => column(page, status).locator(".card .ref").allInnerTexts();
const need = (page, kind) => page.locator(`.needs-you li[data-need=${kind}]`);
const badge = (page) => page.locator(".strip-needs .badge");
// The line above the columns opens what it sums up.
const unfold = (page, half) => page.locator(`.strip-${half}[aria-expanded=false]`).click();

async function openBoard(gateway, query = "project=WEB", options = {}) {
  const page = await openWindow(options);
  await page.goto(`${gateway.url}/#/board?${query}`);
  await page.locator(".board, .events, .health").first().waitFor();
  return page;
}

/** Waits until a column has exactly these cards. */
async function hasRefs(page, status, expected) {
  const want = JSON.stringify(expected);
  const look = ([status, want]) => JSON.stringify([...document.querySelectorAll(`.column[data-status=${status}] .card .ref`)].map((one) => one.textContent)) === want;
  await page.waitForFunction(look, [status, want]).catch(async () => assert.deepEqual(await refs(page, status), expected));
}

test("columns put what is ready first, say what the rest waits for, and are filtered; a refused move explains the rule", async () => {
  await withGateway(PM, async (gateway) => {
    const team = await fillTeam(gateway);
    const page = await openBoard(gateway);
    const todo = await refs(page, "todo");
    const waiting = await column(page, "todo").locator(".card.waiting .ref").allInnerTexts();
    assert.deepEqual(todo.slice(-waiting.length), waiting, "what is not ready comes last");
    assert.ok(waiting.includes(team.waiting.ref));
    await card(page, "todo", team.waiting.ref).getByText(`waits for ${team.made[0].ref}, ${team.made[3].ref}`).waitFor();
    await column(page, "done").getByText("7 days").waitFor();
    await inspect(page, "board-team");

    // Each filter by itself, and all of it in the address.
    await page.getByLabel("Only tasks that are ready").check();
    await column(page, "todo").locator(".card.waiting").first().waitFor({ state: "detached" });
    await page.getByLabel("Only tasks that are ready").uncheck();
    await page.getByRole("combobox", { name: "Label" }).selectOption("mobile");
    await hasRefs(page, "done", [team.made[10].ref]);
    await page.getByRole("combobox", { name: "Priority" }).selectOption("low");
    await page.getByText("No task fits this filter.").waitFor({ state: "detached" });
    await page.reload();
    await hasRefs(page, "in_progress", [team.made[2].ref]);
    await page.getByRole("button", { name: "Clear the filter" }).click();
    await page.getByRole("searchbox", { name: "Text" }).fill("passkey");
    await hasRefs(page, "done", [team.made[11].ref]);
    await hasRefs(page, "todo", []);
    await page.getByRole("button", { name: "Clear the filter" }).click();
    await page.getByRole("checkbox", { name: "Mine" }).check();
    await page.getByText("No task fits this filter.").waitFor();
    await page.getByRole("button", { name: "Clear the filter" }).click();

    // The columns are what one sees first, however many agents there are and however much waits.
    const { y } = await page.locator(".column").first().boundingBox();
    assert.ok(y < 330, `the columns begin at ${y} px`);

    // To begin what waits is refused by the same rule as for agents, in words.
    await card(page, "todo", team.waiting.ref).getByRole("link").press("Shift+ArrowRight");
    await page.locator(".toast").getByText(`${team.waiting.ref} waits for`).waitFor();
    const done = card(page, "done", team.made[11].ref);
    await done.getByRole("link").press("Shift+ArrowLeft");
    await page.getByLabel("Why?").fill("once more");
    await page.getByRole("button", { name: "OK" }).click();
    await page.locator(".toast").getByText(`${team.made[11].ref} cannot go from Done to Blocked.`).waitFor();
    await page.locator(".toast").getByText("From there you can move it to: To do.").waitFor();
    assert.equal(await done.count(), 1);
    // What somebody else does is seen at once.
    await team.crew.Hopper.call("claim_task", { task_id: team.made[13].id, project_id: team.project.id });
    await card(page, "in_progress", team.made[13].ref).waitFor();
    assertQuiet(page);
    await page.context().close();
  });
});

test("everything that waits for a person is answered with one press, and then nothing waits", async () => {
  await withGateway(PM, async (gateway) => {
    const team = await fillTeam(gateway);
    const vanished = new ProcessAgent(gateway, "agt_ito");
    await vanished.call("start_session", { project_id: team.project.id });
    await vanished.call("claim_task", { task_id: team.made[14].id });
    await vanished.die();
    const page = await openBoard(gateway);
    await unfold(page, "needs");
    await page.locator(".needs-you > button.link").click();
    await need(page, "expired").locator("b", { hasText: "Ito" }).waitFor();
    await need(page, "expired").getByRole("link", { name: team.made[14].ref }).waitFor();
    await need(page, "blocked").getByText("The designer has to choose the palette").waitFor();
    await need(page, "cancelled").getByText(`It waits for ${team.dropped.ref}, which was cancelled.`).waitFor();
    assert.equal(await need(page, "review").count(), 2);
    // Beside the name of the board the same number.
    const count = Number(await badge(page).innerText());
    assert.equal(count, await page.locator(".needs-you li").count());
    await page.locator(".rail nav .badge", { hasText: String(count) }).waitFor();
    await inspect(page, "board-needs");

    const pressed = async (kind, name, left) => {
      await need(page, kind).getByRole("button", { name }).first().click();
      await page.waitForFunction((left) => (document.querySelector(".strip-needs .badge")?.textContent ?? "0") === String(left), left);
    };
    await pressed("expired", "Seen Ito", count - 1);
    await pressed("review", `Approve ${team.made[6].ref}`, count - 2);
    await hasRefs(page, "review", [team.made[7].ref]);
    await need(page, "review").getByRole("button", { name: /Ask for changes/ }).click();
    await page.getByLabel("What must change?").fill("one more size");
    await page.getByRole("button", { name: "OK" }).click();
    await hasRefs(page, "review", []);
    await pressed("blocked", `Unblock ${team.made[8].ref}`, count - 4);
    // The handoff that the vanished agent left is open to anybody; the other is meant for somebody.
    await need(page, "handoff").getByRole("button", { name: `Free for anybody ${team.made[12].ref}` }).click();
    await need(page, "handoff").filter({ hasText: team.made[12].ref }).waitFor({ state: "detached" });
    while (await need(page, "handoff").count() > 0) {
      const left = await need(page, "handoff").count();
      await need(page, "handoff").getByRole("button", { name: /Take it/ }).first().click();
      await page.waitForFunction((left) => document.querySelectorAll(".needs-you li[data-need=handoff]").length < left, left);
    }
    await need(page, "cancelled").getByRole("button", { name: `Go on without ${team.stuck.ref}` }).click();
    await need(page, "cancelled").waitFor({ state: "detached" });
    assert.ok((await refs(page, "todo")).includes(team.stuck.ref));
    await need(page, "approval").getByRole("button", { name: `Accept ${team.found.ref}` }).click();
    await page.getByText("Nothing waits for you.").waitFor();
    assert.equal(await badge(page).count(), 0);
    assert.ok((await refs(page, "todo")).includes(team.found.ref));
    // Seen stays seen.
    await page.reload();
    await page.getByText("Nothing waits for you.").waitFor();
    assertQuiet(page);
    await page.context().close();
  });
});

test("agents at work: leases in three colours, checkpoints, a word that is heard, a pause that holds, a hold taken away", async () => {
  await withGateway(PM, async (gateway) => {
    const team = await fillTeam(gateway);
    const page = await openBoard(gateway);
    const member = (name) => page.locator(".member", { has: page.getByText(name, { exact: true }) });
    await page.locator(".strip-agents").getByText("Ada").waitFor();
    await unfold(page, "agents");
    await member("Ada").getByText("claude-code 2.1.4 · WEB").waitFor();
    await member("Ada").getByText("Compared three providers").waitFor();
    assert.equal(await member("Ada").locator(".held").count(), 2);
    await member("Gauss").getByText("no task").waitFor();
    assert.equal(await member("Ada").locator(".lease.good").count(), 2);

    await member("Ada").getByRole("button", { name: "Message Ada" }).click();
    await page.getByLabel("The agent receives it with its next call.").fill("Please leave out PayPal.");
    await page.getByRole("button", { name: "OK" }).click();
    await page.getByText("It will be delivered with the next call.").waitFor();
    const { notices } = await team.crew.Ada.call("get_notifications", {});
    assert.ok(notices.some((one) => one.text.includes("Please leave out PayPal.")), JSON.stringify(notices));

    await page.getByRole("button", { name: "Pause the project" }).click();
    await page.getByLabel("Why?").fill("lunch");
    await page.getByRole("button", { name: "OK" }).click();
    await page.getByText("WEB is paused. Claimed tasks continue; no new ones are started.").waitFor();
    await assert.rejects(team.crew.Hopper.call("claim_task", { task_id: team.made[15].id }), /project_not_active/);
    await assertAccessible(page, "paused board");
    await page.getByRole("button", { name: "Resume it" }).click();
    await page.getByRole("button", { name: "Pause the project" }).waitFor();
    await team.crew.Hopper.call("claim_task", { task_id: team.made[15].id });
    await member("Hopper").waitFor();

    await member("Bohr").getByRole("button", { name: `Take ${team.made[2].ref} away` }).click();
    await page.getByLabel("Why?").fill("Curie does it");
    await page.getByRole("button", { name: "OK" }).click();
    await member("Bohr").getByText("no task").waitFor();
    await assert.rejects(team.crew.Bohr.call("update_task_status", { task_id: team.made[2].id, status: "review", result: { summary: "x" } }), /claim_lost|invalid_transition/);

    // The clock of this window goes ahead, as if nobody had touched the tasks for so long.
    const later = await openWindow();
    await later.clock.setFixedTime(Date.now() + 50 * MINUTE);
    await later.goto(`${gateway.url}/#/board?project=WEB`);
    await unfold(later, "agents");
    await later.locator(".lease.low").first().waitFor();
    assert.equal(await later.locator(".lease.good").count(), 0);
    await later.clock.setFixedTime(Date.now() + 61 * MINUTE);
    await later.locator(".lease.gone").first().waitFor();
    await later.getByText("lease ran out").first().waitFor();
    await inspect(later, "board-leases");
    for (const one of [page, later]) {
      assertQuiet(one);
      await one.context().close();
    }
  });
});

test("a task's page has its decisions, its handoffs, its holds with fences, what is around it, every change, and a prompt to copy", async () => {
  await withGateway(PM, async (gateway) => {
    const team = await fillTeam(gateway);
    const page = await openBoard(gateway, "project=WEB", { permissions: ["clipboard-read", "clipboard-write"] });
    const handed = team.made[12].ref;
    await page.goto(`${gateway.url}/#/board/${handed}?project=WEB`);
    const drawer = page.getByRole("complementary", { name: "Task" });
    await drawer.getByText("Half of the account is deleted").first().waitFor();
    assert.deepEqual(await drawer.locator(".chain .handoff > p b").allInnerTexts(), ["Euler → Darwin", "Darwin → Hopper"]);
    await drawer.getByText("Never delete invoices.").first().waitFor();
    assert.deepEqual(await drawer.locator(".holds-table tbody tr td:first-child").allInnerTexts(), ["2", "1"]);
    await inspect(page, "task-story");

    // A change of the description is seen line by line.
    await page.goto(`${gateway.url}/#/board/${team.made[0].ref}?project=WEB`);
    await drawer.getByRole("heading", { name: "Choose a payment provider" }).waitFor();
    assert.deepEqual(await drawer.locator(".contexts li b").allInnerTexts(), ["decision", "note"]);
    await drawer.getByRole("button", { name: "Edit" }).click();
    await page.getByLabel("Description").fill("Choose a payment provider, as customers expect it.\nMeasured with real cards.");
    await page.getByRole("button", { name: "Save" }).click();
    await drawer.locator(".diff .removed", { hasText: "- Measured on a phone with a slow network." }).waitFor();
    await drawer.locator(".diff .added", { hasText: "+ Measured with real cards." }).waitFor();
    await inspect(page, "task-diff");

    // Around it: a link for each task.
    await drawer.locator(".graph").getByRole("link", { name: new RegExp(team.waiting.ref) }).click();
    await drawer.getByRole("heading", { name: "Pay with one press" }).waitFor();
    const around = await drawer.locator(".graph .node text").allInnerTexts().catch(() => []);
    assert.ok(around.length >= 4, `${around}`);
    await drawer.getByRole("button", { name: "Copy prompt for an agent" }).click();
    await page.getByText(`The prompt for ${team.waiting.ref} was copied.`).waitFor();
    const prompt = await page.evaluate(() => navigator.clipboard.readText());
    assert.ok(prompt.includes("Pay with one press") && prompt.includes("claim_task"), prompt);

    // Given to somebody, and to nobody again.
    const assignee = drawer.locator(".controls label", { hasText: "Assignee" }).locator("select");
    await assignee.selectOption("Darwin");
    await assignee.locator("option:checked", { hasText: "Darwin" }).waitFor({ state: "attached" });
    await assignee.selectOption("unassigned");
    await drawer.locator(".audit", { hasText: /Assignee\s*Darwin\s*→/ }).waitFor();
    await page.reload();
    await assignee.locator("option:checked", { hasText: "unassigned" }).waitFor({ state: "attached" });
    assertQuiet(page);
    await page.context().close();
  });
});

test("the timeline is found by agent, task and kind, taken away and verified; the health of the database is told", async () => {
  await withGateway(PM, async (gateway) => {
    const team = await fillTeam(gateway);
    const hosted = new ProcessAgent(gateway, "agt_ito");
    await hosted.call("start_session", { project_id: team.project.id });
    const page = await openBoard(gateway, "project=WEB&tab=timeline");
    const names = () => page.locator(".events li b").allInnerTexts();
    await page.getByRole("combobox", { name: "Who" }).selectOption("agt_curie");
    await page.waitForFunction(() => [...document.querySelectorAll(".events li b")].every((one) => one.textContent === "Curie"));
    assert.ok((await names()).length > 0);
    await page.getByRole("combobox", { name: "Who" }).selectOption("");
    await page.getByRole("textbox", { name: "Task" }).fill(team.made[8].ref);
    await page.getByText("got blocked on").waitFor();
    await page.waitForFunction((ref) => [...document.querySelectorAll(".events li a .mono")].every((one) => one.textContent === ref), team.made[8].ref);
    await page.getByRole("combobox", { name: "About" }).selectOption("claim");
    await page.getByText("got blocked on").waitFor({ state: "detached" });
    await page.getByText("took hold of a task").waitFor();

    // What is taken away is what is shown.
    const shown = await page.locator(".events li").count();
    const take = async (name) => {
      const [download] = await Promise.all([page.waitForEvent("download"), page.getByRole("link", { name, exact: true }).click()]);
      const file = `${pictures}/${download.suggestedFilename()}`;
      await download.saveAs(file);
      return readFile(file, "utf8");
    };
    const lines = (await take("JSONL")).trim().split("\n").map((line) => JSON.parse(line));
    assert.equal(lines.length, shown);
    assert.ok(lines.every((event) => event.entity_type === "claim" && event.hash.length === 64));
    const table = (await take("CSV")).trim().split("\r\n");
    assert.equal(table[0].split(",")[0], "seq");
    assert.equal(table.length, shown + 1);
    await page.getByRole("button", { name: "Verify the history" }).click();
    await page.getByText(/^Sound: [\d,]+ records agree with [\d,]+ events/).waitFor();
    await inspect(page, "board-timeline");

    await page.getByRole("tab", { name: "Health" }).click();
    const fact = (name) => page.locator(".health > div", { has: page.getByText(name, { exact: true }) }).locator("dd");
    await fact("Database").getByText(/[KM]iB/).waitFor();
    await fact("Write-ahead log").getByText(/B$/).waitFor();
    await fact("Oldest open lease").getByText("none").waitFor();
    await fact("Undelivered notices").waitFor();
    await page.getByRole("cell", { name: String(hosted.child.pid), exact: true }).waitFor();
    await page.getByRole("cell", { name: String(gateway.child.pid), exact: true }).waitFor();
    await inspect(page, "board-health");
    await hosted.die();
    assertQuiet(page);
    await page.context().close();
  });
});

test("a project of three thousand tasks is shown whole: every task is counted, found and reached", async () => {
  await withGateway(PM, async (gateway) => {
    await fillMany(gateway, 3000);
    const page = await openBoard(gateway, "project=BIG");
    await column(page, "todo").getByText("3,000").waitFor();
    assert.equal(await column(page, "todo").locator(".card").count(), 40);
    await column(page, "todo").getByRole("button", { name: /2,960 more/ }).click();
    await column(page, "todo").getByRole("button", { name: /2,920 more/ }).waitFor();
    assert.equal(await column(page, "todo").locator(".card").count(), 80);
    await page.getByRole("searchbox", { name: "Text" }).fill("number 2999");
    await hasRefs(page, "todo", ["BIG-2999"]);
    await column(page, "todo").getByRole("link", { name: "BIG-2999" }).click();
    await page.getByRole("heading", { name: "Task number 2999" }).waitFor();
    await page.getByRole("button", { name: "Close", exact: true }).first().click();
    await page.getByRole("button", { name: "Clear the filter" }).click();
    await page.getByRole("combobox", { name: "Priority" }).selectOption("critical");
    await column(page, "todo").locator(".count", { hasText: /^30$/ }).waitFor();
    await inspect(page, "board-many");
    assertQuiet(page);
    await page.context().close();
  });
});

test("without JavaScript the board can be read, filtered, and entered with a key; a hostile title stays a text", async () => {
  await withGateway(PM, async (gateway) => {
    const team = await fillTeam(gateway);
    const hostile = "<img src=x onerror=alert(1)> & \"quotes\"";
    await team.me.call("create_task", { project_id: team.project.id, title: hostile, priority: "critical" });
    const page = await openWindow({ javaScriptEnabled: false });
    await page.goto(gateway.url);
    await page.getByRole("link", { name: "The board can be read without it." }).click();
    await page.getByRole("heading", { name: "Needs you 6" }).waitFor();
    await page.getByText(hostile).waitFor();
    assert.equal(await page.locator("img").count(), 0);
    await page.getByRole("rowheader", { name: "Ada" }).waitFor();
    await page.getByText("Compared three providers").waitFor();
    await page.getByText(`waits for ${team.made[0].ref}, ${team.made[3].ref}`).waitFor();
    await page.screenshot({ path: `${pictures}/board-plain.png`, fullPage: true });
    await page.getByLabel("Text").fill("passkey");
    await page.getByRole("button", { name: "Show" }).click();
    await page.getByRole("heading", { name: "Done 1" }).waitFor();
    assert.equal(await page.getByText(hostile).count(), 0);
    await page.getByRole("link", { name: "日本語" }).click();
    await page.getByRole("heading", { name: /あなたの対応待ち/ }).waitFor();

    const key = (await gateway.run("key", "add", "ops", "--admin")).trim();
    for (;;) {
      await page.goto(`${gateway.url}/board.html?lang=en`);
      if (await page.getByText("This gateway asks for a key.").isVisible()) break;
    }
    await page.getByLabel("Key").fill(key);
    await page.getByRole("button", { name: "Sign in" }).click();
    await page.getByRole("heading", { name: /Needs you|あなたの対応待ち/ }).waitFor();
    // What a reader without JavaScript sees is as accessible as the rest; looked at in a window that can run axe.
    const looking = await openWindow({ storageState: await page.context().storageState() });
    await looking.goto(`${gateway.url}/board.html?lang=en`);
    await inspect(looking, "board-plain");
    await page.context().close();
    await looking.context().close();
  });
});
