// A small MCP server for the browser test: revision 2025-06-18 over stdio. It asks people, counts, and dies on demand.
import { createInterface } from "node:readline";

const write = (message) => process.stdout.write(`${JSON.stringify({ jsonrpc: "2.0", ...message })}\n`);
const text = (words) => ({ content: [{ type: "text", text: words }] });
/** Questions on their way, by id. */
const asked = new Map();
let lastAsked = 0;

function ask(params) {
  const id = `ask-${++lastAsked}`;
  write({ id, method: "elicitation/create", params });
  return new Promise((resolve) => asked.set(id, resolve));
}

const TOOLS = [
  { name: "echo", description: "Says it again.", annotations: { readOnlyHint: true }, inputSchema: { type: "object", properties: { message: { type: "string", description: "What to say", minLength: 1 } }, required: ["message"] } },
  {
    name: "book_table",
    title: "Book a table",
    description: "Books a table at a restaurant.\nAsks back if the place is full.",
    annotations: { destructiveHint: true, openWorldHint: true },
    inputSchema: {
      type: "object",
      properties: {
        restaurant: { type: "string", description: "Which one", minLength: 2, examples: ["Sakura"] },
        people: { type: "integer", minimum: 1, maximum: 12, default: 2, description: "How many come" },
        seating: { enum: ["inside", "terrace", "bar"], description: "Where to sit" },
        vegetarian: { type: "boolean", default: false },
        wishes: { type: "array", items: { type: "string" }, maxItems: 5, description: "Anything else" },
        contact: { type: "object", description: "Whom to call", properties: { name: { type: "string" }, email: { type: "string", format: "email" } }, required: ["name"] },
        payment: {
          oneOf: [
            { title: "Card", type: "object", properties: { kind: { const: "card" }, last4: { type: "string", pattern: "^[0-9]{4}$", description: "Its last four digits" } }, required: ["kind", "last4"] },
            { title: "Cash", type: "object", properties: { kind: { const: "cash" } }, required: ["kind"] },
          ],
        },
      },
      required: ["restaurant", "people", "payment"],
    },
    outputSchema: { type: "object", properties: { booked: { type: "boolean" }, seat: { type: "string" }, name: { type: "string" } }, required: ["booked", "seat", "name"] },
  },
  {
    name: "pack",
    description: "Says what it was given.",
    inputSchema: {
      type: "object",
      properties: {
        note: { description: "Anything at all" },
        parts: { type: "array", items: { oneOf: [{ title: "Word", type: "string" }, { title: "Weight", type: "integer" }] }, description: "What to pack" },
        extras: { type: "array", items: {}, description: "What else" },
      },
    },
  },
  { name: "count", description: "Counts to a number and reports progress.", inputSchema: { type: "object", properties: { to: { type: "integer", minimum: 1, maximum: 1000, default: 3 } } } },
  { name: "crash", description: "Ends this server in the middle of the call.", annotations: { destructiveHint: true }, inputSchema: { type: "object", properties: {} } },
  { name: "<img src=x onerror=alert(1)>", description: "<script>alert(1)</script> A name that wants to be run.", inputSchema: { type: "object", properties: {} } },
];

const PICTURE = "iVBORw0KGgoAAAANSUhEUgAAAAgAAAAICAIAAABLbSncAAAAHUlEQVR4nGNgYGD4z8DAwMDEgApGBUYFRgUGVAAAVcoBD2vFEKsAAAAASUVORK5CYII=";

const CALLS = {
  echo: ({ message }) => text(message),
  async book_table({ restaurant, people }) {
    const answer = await ask({
      message: `${restaurant} has no table for ${people} on the terrace. Is the bar fine?`,
      requestedSchema: { type: "object", properties: { bar: { type: "boolean", title: "The bar is fine", default: true }, name: { type: "string", title: "Name for the booking", minLength: 2 } }, required: ["bar", "name"] },
    });
    if (answer.action !== "accept") return { ...text("Nothing was booked."), isError: true };
    const booked = { booked: true, seat: answer.content.bar ? "bar" : "none", name: answer.content.name };
    return { content: [{ type: "text", text: JSON.stringify(booked) }, { type: "image", data: PICTURE, mimeType: "image/png" }], structuredContent: booked };
  },
  pack: (given) => text(`packed ${JSON.stringify(given)}`),
  async count({ to = 3 }, token) {
    for (let at = 1; at <= to; at += 1) {
      if (token !== undefined) write({ method: "notifications/progress", params: { progressToken: token, progress: at, total: to, message: `at ${at}` } });
      await new Promise((resolve) => setTimeout(resolve, 40));
    }
    return text(`counted to ${to}`);
  },
  crash() {
    process.stderr.write("fatal: somebody asked for it\n");
    process.exit(3);
  },
};

async function answer({ id, method, params }) {
  switch (method) {
    case "initialize":
      return write({ id, result: { protocolVersion: "2025-06-18", capabilities: { tools: {} }, serverInfo: { name: "tables", version: "1.0.0" }, instructions: "Books tables that do not exist." } });
    case "ping":
      return write({ id, result: {} });
    case "tools/list":
      return write({ id, result: { tools: TOOLS } });
    case "tools/call": {
      const call = CALLS[params.name];
      if (call === undefined) return write({ id, error: { code: -32602, message: `unknown tool: ${params.name}` } });
      return write({ id, result: await call(params.arguments ?? {}, params._meta?.progressToken) });
    }
    default:
      if (id !== undefined) write({ id, error: { code: -32601, message: `method not found: ${method}` } });
  }
}

process.stderr.write("tables: ready\n");
createInterface({ input: process.stdin }).on("line", (line) => {
  const message = JSON.parse(line);
  if (message.method === undefined) {
    asked.get(message.id)?.(message.result ?? { action: "cancel" });
    asked.delete(message.id);
  } else {
    void answer(message);
  }
}).on("close", () => process.exit(0));
