// The official TypeScript SDK 1.x as a client of the gateway: typescript_1.mjs URL

import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";
import { ElicitRequestSchema } from "@modelcontextprotocol/sdk/types.js";
import { same, tryAll } from "./report.mjs";

const client = new Client({ name: "typescript-1", version: "1" }, { capabilities: { elicitation: {} } });
client.setRequestHandler(ElicitRequestSchema, (request) => {
  same(request.params.message, "Who are you?");
  return { action: "accept", content: { name: "Ann" } };
});
await client.connect(new StreamableHTTPClientTransport(new URL(process.argv[2])));
await tryAll(client, (params, options) => client.callTool(params, undefined, options));
await client.close();
