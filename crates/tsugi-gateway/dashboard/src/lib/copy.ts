/** One call written in the languages people paste: curl, `tsugi call`, TypeScript and Python. */

import { headerText, headerValues, isObject } from "./schema";
import type { Json, JsonObject, Schema } from "./types";

export const REVISION = "2026-07-28";

export interface Recipe {
  /** The page's own origin. */
  origin: string;
  server: string;
  tool: string;
  schema: Schema | undefined;
  values: JsonObject;
  /** Whether callers must bring a key. */
  needsKey: boolean;
}

export type Language = "curl" | "tsugi" | "typescript" | "python";
export const LANGUAGES: Language[] = ["curl", "tsugi", "typescript", "python"];

export function copyAs(language: Language, recipe: Recipe): string {
  return { curl, tsugi, typescript, python }[language](recipe);
}

/** One word of a POSIX shell. */
export function shellWord(text: string): string {
  return /^[A-Za-z0-9_@%+=:,./-]+$/.test(text) ? text : `'${text.replace(/'/g, `'\\''`)}'`;
}

function address(recipe: Recipe): string {
  return `${recipe.origin}/servers/${encodeURIComponent(recipe.server)}/mcp`;
}

function curl(recipe: Recipe): string {
  const body = {
    jsonrpc: "2.0",
    id: 1,
    method: "tools/call",
    params: {
      name: recipe.tool,
      arguments: recipe.values,
      _meta: {
        "io.modelcontextprotocol/protocolVersion": REVISION,
        "io.modelcontextprotocol/clientInfo": { name: "curl", version: "1" },
        "io.modelcontextprotocol/clientCapabilities": {},
      },
    },
  };
  const headers = [
    "Content-Type: application/json",
    "Accept: application/json, text/event-stream",
    `MCP-Protocol-Version: ${REVISION}`,
    "Mcp-Method: tools/call",
    `Mcp-Name: ${headerText(recipe.tool)}`,
    ...Object.entries(headerValues(recipe.schema, recipe.values)).map(([name, value]) => `${name}: ${value}`),
  ];
  const words = headers.map((header) => `  -H ${shellWord(header)}`);
  if (recipe.needsKey) words.push(`  -H "Authorization: Bearer $TSUGI_KEY"`);
  return [`curl -sS ${shellWord(address(recipe))}`, ...words, `  -d ${shellWord(JSON.stringify(body))}`].join(" \\\n");
}

function tsugi(recipe: Recipe): string {
  const key = recipe.needsKey ? ` --header "Authorization: Bearer $TSUGI_KEY"` : "";
  return `tsugi call --url ${shellWord(address(recipe))}${key} ${shellWord(recipe.tool)} --json ${shellWord(JSON.stringify(recipe.values))}`;
}

function typescript(recipe: Recipe): string {
  const url = `new URL(${JSON.stringify(address(recipe))})`;
  const options = recipe.needsKey ? ", {\n  requestInit: { headers: { Authorization: `Bearer ${process.env.TSUGI_KEY}` } },\n}" : "";
  return `// npm install @modelcontextprotocol/client
import { Client, StreamableHTTPClientTransport } from "@modelcontextprotocol/client";

const client = new Client({ name: "example", version: "1.0.0" });
await client.connect(new StreamableHTTPClientTransport(${url}${options}));
const result = await client.callTool({
  name: ${JSON.stringify(recipe.tool)},
  arguments: ${indent(JSON.stringify(recipe.values, null, 2), "  ")},
});
console.log(result);
await client.close();
`;
}

function python(recipe: Recipe): string {
  const url = pythonValue(address(recipe));
  const plain = `async with Client(${url}) as client:`;
  const keyed = `headers = {"Authorization": f"Bearer {os.environ['TSUGI_KEY']}"}
    async with (
        httpx2.AsyncClient(headers=headers) as http,
        Client(streamable_http_client(${url}, http_client=http)) as client,
    ):`;
  const imports = recipe.needsKey
    ? "import asyncio\nimport os\n\nimport httpx2\nfrom mcp import Client\nfrom mcp.client.streamable_http import streamable_http_client"
    : "import asyncio\n\nfrom mcp import Client";
  return `# pip install mcp
${imports}


async def main():
    ${recipe.needsKey ? keyed : plain}
        result = await client.call_tool(${pythonValue(recipe.tool)}, ${pythonValue(recipe.values)})
        print(result)


asyncio.run(main())
`;
}

/** A JSON value as a Python literal. */
export function pythonValue(value: Json): string {
  if (value === null) return "None";
  if (value === true) return "True";
  if (value === false) return "False";
  if (Array.isArray(value)) return `[${value.map(pythonValue).join(", ")}]`;
  if (isObject(value)) return `{${Object.entries(value).map(([name, one]) => `${pythonValue(name)}: ${pythonValue(one)}`).join(", ")}}`;
  return JSON.stringify(value);
}

function indent(text: string, by: string): string {
  return text.replace(/\n/g, `\n${by}`);
}

/** The line that connects Claude Code to this gateway. With keys in use it fails without the header. */
export function clientLine(origin: string, needsKey: boolean): string {
  const line = `claude mcp add --transport http tsugi ${origin}/mcp`;
  return needsKey ? `${line} --header "Authorization: Bearer YOUR_KEY"` : line;
}
