// A story with the project-management server, told by the official TypeScript SDK.
//
//   story.mjs PROGRAM DB legacy|modern     the SDK 2.x
//   story.mjs PROGRAM DB first             the SDK 1.x, which knows only the legacy era
// Three agents act, each with a process of its own; one of them hears of changes of the task.

const [program, db, era] = process.argv.slice(2);
const about = { name: "story", version: "1" };

/** A connected client, and what it hears of changed resources. */
async function agent(name) {
  const updates = [];
  const heard = (notification) => updates.push(notification.params.uri);
  const server = { command: program, args: ["--db", db, "--agent-id", name, "--tools", "standard"] };
  if (era === "first") {
    const { Client } = await import("@modelcontextprotocol/sdk/client/index.js");
    const { StdioClientTransport } = await import("@modelcontextprotocol/sdk/client/stdio.js");
    const { ResourceUpdatedNotificationSchema } = await import("@modelcontextprotocol/sdk/types.js");
    const client = new Client(about, {});
    client.setNotificationHandler(ResourceUpdatedNotificationSchema, heard);
    await client.connect(new StdioClientTransport(server));
    return { client, updates };
  }
  const { Client } = await import("@modelcontextprotocol/client");
  const { StdioClientTransport } = await import("@modelcontextprotocol/client/stdio");
  const mode = era === "legacy" ? era : { pin: "2026-07-28" };
  const client = new Client(about, { versionNegotiation: { mode } });
  client.setNotificationHandler("notifications/resources/updated", heard);
  await client.connect(new StdioClientTransport(server));
  return { client, updates };
}

/** What a tool that must succeed answers. */
async function act({ client }, name, args = {}) {
  const result = await client.callTool({ name, arguments: args });
  if (result.isError) throw new Error(`${name}: ${JSON.stringify(result)}`);
  return result.structuredContent;
}

function same(found, expected) {
  if (JSON.stringify(found) !== JSON.stringify(expected)) throw new Error(`${JSON.stringify(found)} is not ${expected}`);
}

/** Hears of changes of a resource, each era in its way. */
async function subscribe({ client }, uri) {
  if (era === "modern") await client.listen({ resourceSubscriptions: [uri] });
  else await client.subscribeResource({ uri });
}

const [manager, ann, bob] = await Promise.all(["agt_manager", "agt_ann", "agt_bob"].map(agent));
const project_id = (await act(manager, "list_projects")).projects[0].id;
const task = (await act(manager, "create_task", { project_id, title: "Ship it" })).task.ref;
const uri = `task://${task}`;
await subscribe(manager, uri);

const { session_id } = await act(ann, "start_session", { project_id });
same((await act(ann, "claim_task", { task_id: task, session_id })).claimed, true);
await act(ann, "add_context", { task_id: task, content: "use SQLite", type: "decision", session_id });
const handoff = { task_id: task, to_agent_id: "agt_bob", summary: "half done", next_steps: ["the rest"] };
await act(ann, "create_handoff", { ...handoff, session_id });

const waiting = await act(bob, "get_pending_handoffs");
const accepted = await act(bob, "accept_handoff", { handoff_id: waiting.handoffs[0].id });
same(accepted.contexts[0].content, "use SQLite");
await act(bob, "update_task_status", { task_id: task, status: "review", result: { summary: "works" } });
same((await act(manager, "review_task", { task_id: task, verdict: "approve" })).task.status, "done");
await act(bob, "end_session", { summary: "shipped" });
await act(ann, "end_session", { summary: "handed over", session_id });

const deadline = Date.now() + 30_000;
while (manager.updates.length === 0) {
  if (Date.now() > deadline) throw new Error("no change of the task was heard of");
  await new Promise((next) => setTimeout(next, 50));
}
same([...new Set(manager.updates)], [uri]);
await Promise.all([manager, ann, bob].map(({ client }) => client.close()));
console.log("told");
