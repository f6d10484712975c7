// A server with as many tools as its argument says: revision 2025-06-18 over stdio.
import { createInterface } from "node:readline";

const tools = Array.from({ length: Number(process.argv[2]) }, (_, at) => ({
  name: `tool_${at}`,
  description: `The tool with the number ${at}, which does what its arguments say.`,
  inputSchema: { type: "object", properties: { path: { type: "string" }, limit: { type: "integer", default: 10 } }, required: ["path"] },
}));
const RESULTS = {
  initialize: { protocolVersion: "2025-06-18", capabilities: { tools: {} }, serverInfo: { name: "many", version: "1.0.0" } },
  ping: {},
  "tools/list": { tools },
  "tools/call": { content: [{ type: "text", text: "done" }] },
};

createInterface({ input: process.stdin }).on("line", (line) => {
  const { id, method } = JSON.parse(line);
  if (id === undefined) return;
  const result = RESULTS[method];
  const answer = result === undefined ? { error: { code: -32601, message: `method not found: ${method}` } } : { result };
  process.stdout.write(`${JSON.stringify({ jsonrpc: "2.0", id, ...answer })}\n`);
}).on("close", () => process.exit(0));
