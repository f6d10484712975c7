// The official TypeScript SDK 2.x as a client of the gateway: typescript_2.mjs URL legacy|2026-07-28

import { Client, StreamableHTTPClientTransport } from "@modelcontextprotocol/client";
import { same, tryAll } from "./report.mjs";

const [url, era] = process.argv.slice(2);
const mode = era === "legacy" ? era : { pin: era };
const client = new Client(
  { name: "typescript-2", version: "1" },
  { capabilities: { elicitation: {} }, versionNegotiation: { mode } },
);
client.setRequestHandler("elicitation/create", (request) => {
  same(request.params.message, "Who are you?");
  return { action: "accept", content: { name: "Ann" } };
});
await client.connect(new StreamableHTTPClientTransport(new URL(url)));
await tryAll(client, (params, options) => client.callTool(params, options));
await client.close();
