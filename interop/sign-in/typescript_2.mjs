// The official TypeScript SDK 2.x signs in and calls: typescript_2.mjs URL WORD legacy|2026-07-28

import { Client, StreamableHTTPClientTransport } from "@modelcontextprotocol/client";
import { authProvider, signInAndCall } from "./sign_in.mjs";

const [url, word, era] = process.argv.slice(2);
const mode = era === "legacy" ? era : { pin: era };
await signInAndCall(
  () => new Client({ name: "typescript-2", version: "1" }, { versionNegotiation: { mode } }),
  () => new StreamableHTTPClientTransport(new URL(url), { authProvider }),
  (transport, parameters) => transport.finishAuth(parameters),
  (client) => client.callTool({ name: "desk__echo", arguments: { message: word } }),
);
