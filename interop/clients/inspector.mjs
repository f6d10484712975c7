// The MCP Inspector's command line as a client of the gateway: inspector.mjs URL legacy|modern
// It makes one request per run, so it can neither be asked, nor hear of progress, nor cancel.

import { execFile } from "node:child_process";
import { promisify } from "node:util";
import { feature, has, same } from "./report.mjs";

const [url, era] = process.argv.slice(2);
const program = new URL("../node_modules/.bin/mcp-inspector", import.meta.url).pathname;
// It would otherwise keep a catalog in the home directory.
const env = { ...process.env, HOME: new URL(".", import.meta.url).pathname };

async function ask(method, ...rest) {
  const args = ["--cli", "--server-url", url, "--transport", "http", "--protocol-era", era, "--method", method];
  const done = await promisify(execFile)(program, [...args, ...rest, "--format", "json", "--quiet"], { env });
  return JSON.parse(done.stdout).result;
}

await feature("list", async (server) => {
  has((await ask("tools/list")).tools.map((tool) => tool.name), `${server}__echo`);
  has((await ask("resources/list")).resources.map((resource) => resource.uri), `${server}://text`);
  has((await ask("prompts/list")).prompts.map((prompt) => prompt.name), `${server}__greet`);
});
await feature("call", async (server) => {
  const result = await ask("tools/call", "--tool-name", `${server}__echo`, "--tool-arg", "message=hi");
  same(result.content[0].text, "hi");
});
await feature("read", async (server) => {
  const result = await ask("resources/read", "--uri", `${server}://text`);
  same(result.contents[0].text, `some ${server} text`);
});
await feature("get", async (server) => {
  const result = await ask("prompts/get", "--prompt-name", `${server}__greet`, "--prompt-args", "name=Ann");
  same(result.messages[0].content.text, "Greet Ann.");
});
for (const name of ["progress", "elicit", "cancel"]) console.log(JSON.stringify({ feature: name, cannot: true }));
