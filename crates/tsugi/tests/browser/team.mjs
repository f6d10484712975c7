// A project as agents leave it after a morning: ten of them, forty tasks in every state, and everything that waits for
// a person. Filled through the gateway's own faces, each agent with a token of its own.
import { strict as assert } from "node:assert";
import path from "node:path";

const REVISION = "2026-07-28";

/** Somebody who calls tools of `pm`. */
export class Caller {
  constructor(url, token, client) {
    Object.assign(this, { url, token, client });
  }

  async call(tool, args) {
    const params = { name: tool, arguments: args, _meta: { "io.modelcontextprotocol/protocolVersion": REVISION, "io.modelcontextprotocol/clientInfo": this.client, "io.modelcontextprotocol/clientCapabilities": {} } };
    const headers = { "content-type": "application/json", accept: "application/json, text/event-stream", "mcp-protocol-version": REVISION, "mcp-method": "tools/call", "mcp-name": tool, ...(this.token ? { authorization: `Bearer ${this.token}` } : {}) };
    const response = await fetch(`${this.url}/servers/pm/mcp`, { method: "POST", headers, body: JSON.stringify({ jsonrpc: "2.0", id: 1, method: "tools/call", params }) });
    const answer = JSON.parse(await response.text());
    assert.ok(answer.result && answer.result.isError !== true, `${tool} ${JSON.stringify(args)}: ${JSON.stringify(answer).slice(0, 600)}`);
    return answer.result.structuredContent;
  }
}

/** An agent in a process of its own, over standard streams, as most clients run it. */
export class ProcessAgent {
  constructor(gateway, id) {
    this.child = gateway.start("pm", "mcp", "--db", path.join(gateway.home, ".local/state/tsugi/pm.db"), "--agent-id", id);
    this.ended = new Promise((resolve) => this.child.once("exit", resolve));
    this.waiting = new Map();
    let rest = "";
    this.child.stdout.setEncoding("utf8").on("data", (more) => {
      const lines = (rest + more).split("\n");
      rest = lines.pop();
      for (const line of lines.filter((one) => one !== "")) {
        const message = JSON.parse(line);
        this.waiting.get(message.id)?.(message);
      }
    });
  }

  async call(tool, args) {
    const id = this.waiting.size + 1;
    const params = { name: tool, arguments: args, _meta: { "io.modelcontextprotocol/protocolVersion": REVISION, "io.modelcontextprotocol/clientInfo": { name: "zed", version: "1.0" }, "io.modelcontextprotocol/clientCapabilities": {} } };
    const answered = new Promise((resolve) => this.waiting.set(id, resolve));
    this.child.stdin.write(`${JSON.stringify({ jsonrpc: "2.0", id, method: "tools/call", params })}\n`);
    const answer = await Promise.race([answered, this.ended.then((code) => ({ error: `the agent's process ended with ${code}` }))]);
    assert.ok(answer.result && answer.result.isError !== true, `${tool}: ${JSON.stringify(answer).slice(0, 600)}`);
    return answer.result.structuredContent;
  }

  /** It says no goodbye. */
  async die() {
    this.child.kill("SIGTERM");
    await this.ended;
  }
}

const NAMES = ["Ada", "Bohr", "Curie", "Darwin", "Euler", "Franklin", "Gauss", "Hopper", "Ito", "Jansky"];
const CLIENTS = [["claude-code", "2.1.4"], ["codex", "0.58.0"], ["cursor", "2.0.1"], ["gemini-cli", "0.14.0"]];

/** The agents of a project, each with a caller of its own; the last is a manager. */
async function agents(gateway, key) {
  const crew = {};
  for (const [at, name] of NAMES.entries()) {
    const id = `agt_${name.toLowerCase()}`;
    await gateway.run("pm", "agent", "add", id, "--name", name, "--project", key, "--role", at === 9 ? "manager" : "worker");
    const { secret } = JSON.parse(await gateway.run("pm", "token", "new", id, "--json"));
    const [client, version] = CLIENTS[at % CLIENTS.length];
    crew[name] = new Caller(gateway.url, secret, { name: client, version });
  }
  return crew;
}

const TITLES = [
  "Choose a payment provider", "Write the imprint", "Cart survives a reload", "Prices with tax per country", "Send the receipt by mail", "Refund a single item", "Search with typing errors",
  "Pictures in three sizes", "Dark colours", "Stock below five is shown", "Voucher codes", "Sign in with a passkey", "Delete an account", "Export of orders as CSV", "Robots and site map", "Address suggestions",
  "Newsletter with double opt-in", "Translate to Japanese", "Cookie banner that says no", "Load test with 500 carts", "Backups are restored once a month", "Alert when checkout fails",
];

/** Fills a project; gives its id and what a story may want to know. */
export async function fillTeam(gateway, key = "WEB") {
  const me = new Caller(gateway.url, null, { name: "story", version: "1" });
  const { project } = await me.call("create_project", { key, name: "Web shop", policy: { claim_idle_ttl_s: 3600, resume_grace_s: 0 } });
  const crew = await agents(gateway, key);
  const task = async (title, more = {}) => (await me.call("create_task", { project_id: project.id, title, similar_ok: true, ...more })).task;
  const labels = (at) => [["ui"], ["payment"], ["ui", "mobile"], ["backend"]][at % 4];
  const priority = (at) => ["medium", "high", "low", "medium", "critical"][at % 5];
  const made = [];
  for (const [at, title] of TITLES.entries()) made.push(await task(title, { labels: labels(at), priority: priority(at), description: `${title}, as customers expect it.\nMeasured on a phone with a slow network.`, acceptance: ["works on a phone", "has a test"] }));
  const claim = (name, one) => crew[name].call("claim_task", { task_id: one.id, project_id: project.id });
  const start = (name) => crew[name].call("start_session", { project_id: project.id });

  // At work, with checkpoints.
  const sessions = {};
  for (const name of NAMES.slice(0, 7)) sessions[name] = (await start(name)).session_id;
  const work = [["Ada", 0], ["Ada", 1], ["Bohr", 2], ["Curie", 3], ["Darwin", 4], ["Euler", 5]];
  for (const [name, at] of work) await claim(name, made[at]);
  await crew.Ada.call("heartbeat", { session_id: sessions.Ada, task_ids: [made[0].id], checkpoint: "Compared three providers; Stripe and Komoju left. Next: fees for konbini payments." });
  await crew.Bohr.call("heartbeat", { session_id: sessions.Bohr, task_ids: [made[2].id], checkpoint: "Cart is in IndexedDB. Merging with the server's cart is still wrong when both changed." });
  await crew.Ada.call("add_context", { task_id: made[0].id, type: "decision", content: "Only providers with SEPA and konbini." });
  await crew.Ada.call("add_context", { task_id: made[0].id, type: "note", content: "Fees are in the shared sheet." });

  // Reviews, blocked ones, done ones.
  for (const [name, at] of [["Franklin", 6], ["Gauss", 7]]) {
    await claim(name, made[at]);
    await crew[name].call("update_task_status", { task_id: made[at].id, status: "review", result: { summary: `${made[at].title}: done and measured, 3 tests added.` } });
  }
  await claim("Franklin", made[8]);
  await crew.Franklin.call("update_task_status", { task_id: made[8].id, status: "blocked", reason: "The designer has to choose the palette: two proposals are in the sheet." });
  for (const at of [9, 10, 11]) {
    await claim("Gauss", made[at]);
    await me.call("update_task_status", { task_id: made[at].id, status: "done", result: { summary: "It works." } });
  }
  // Handed over twice: to somebody, who never takes it, and before that to whoever comes.
  await claim("Euler", made[12]);
  await crew.Euler.call("create_handoff", { task_id: made[12].id, summary: "Half of the account is deleted; orders must stay for ten years.", next_steps: ["ask legal", "anonymise orders"], warnings: ["Never delete invoices."] });
  const { handoffs } = await crew.Darwin.call("get_pending_handoffs", { project_id: project.id, include_open: true });
  await crew.Darwin.call("accept_handoff", { handoff_id: handoffs[0].id });
  await crew.Darwin.call("create_handoff", { task_id: made[12].id, to_agent_id: "agt_hopper", summary: "Legal answered: anonymise after ten years. The job is written, not yet scheduled.", next_steps: ["schedule the job"] });

  // What waits for others, one of them in vain.
  const waiting = await task("Pay with one press", { depends_on: [made[0].ref, made[3].ref], labels: ["payment"], priority: "high" });
  await task("Announce the shop", { depends_on: [waiting.ref] });
  const dropped = await task("Pay by fax");
  const stuck = await task("Fax the receipt", { depends_on: [dropped.ref] });
  await me.call("update_task_status", { task_id: dropped.id, status: "cancelled", reason: "nobody has a fax" });
  for (let at = 0; at < 4; at += 1) await task(`Idea ${at + 1}: something for later`, { status: "backlog", priority: "low" });

  // Found by workers, to be accepted by a person.
  const found = await crew.Bohr.call("create_task", { project_id: project.id, title: "Carts of guests are never deleted", priority: "high", labels: ["backend"] });
  for (let at = 0; at < 6; at += 1) await task(`Translate page ${at + 1}`, { labels: ["i18n"], priority: priority(at) });
  return { project, crew, made, waiting, stuck, dropped, found: found.task, me, sessions };
}

/** A project of many tasks, every hundredth of them critical. */
export async function fillMany(gateway, count, key = "BIG") {
  const me = new Caller(gateway.url, null, { name: "story", version: "1" });
  const { project } = await me.call("create_project", { key, name: "A long list" });
  for (let from = 0; from < count; from += 100) {
    const tasks = Array.from({ length: Math.min(100, count - from) }, (_, at) => ({ ref: `n${at}`, title: `Task number ${from + at + 1}`, priority: at === 0 ? "critical" : "medium", labels: [`part-${Math.floor(from / 1000)}`], similar_ok: true, ...(at > 0 && at % 10 === 0 ? { depends_on: ["n0"] } : {}) }));
    await me.call("create_tasks", { project_id: project.id, tasks });
  }
  return { project, me };
}
