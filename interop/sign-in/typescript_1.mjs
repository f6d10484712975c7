// The official TypeScript SDK 1.x signs in and calls: typescript_1.mjs URL WORD

import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";
import { authProvider, signInAndCall } from "./sign_in.mjs";

const [url, word] = process.argv.slice(2);
await signInAndCall(
  () => new Client({ name: "typescript-1", version: "1" }),
  () => new StreamableHTTPClientTransport(new URL(url), { authProvider }),
  (transport, parameters) => transport.finishAuth(parameters.get("code")),
  (client) => client.callTool({ name: "desk__echo", arguments: { message: word } }),
);
