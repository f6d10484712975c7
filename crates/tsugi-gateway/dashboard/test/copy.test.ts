import { strict as assert } from "node:assert";
import { spawnSync } from "node:child_process";
import { test } from "node:test";
import { clientLine, copyAs, LANGUAGES, pythonValue, type Recipe, shellWord } from "../src/lib/copy";
import { splitWords } from "../src/lib/words";

const recipe: Recipe = { origin: "http://127.0.0.1:7600", server: "my files", tool: "read", schema: { properties: { path: { type: "string", "x-mcp-header": "Path" } } }, values: { path: "it's a $HOME `x`\n\"y\"", n: null, yes: true }, needsKey: false };

/** What a shell makes of a command, word by word. */
function words(command: string): string[] {
  const { stdout } = spawnSync("bash", ["-c", `show() { printf '%s\\0' "$@"; }; ${command.replace(/^(curl|tsugi)/, "show")}`], { encoding: "utf8" });
  return stdout.split("\0").slice(0, -1);
}

test("curl sends exactly the values, whatever they contain", () => {
  const all = words(copyAs("curl", recipe));
  const body = JSON.parse(all[all.indexOf("-d") + 1]!) as { params: { arguments: unknown; name: string } };
  assert.deepEqual(body.params.arguments, recipe.values);
  assert.equal(all.find((one) => one.startsWith("http")), "http://127.0.0.1:7600/servers/my%20files/mcp");
  assert.ok(all.some((one) => one.startsWith("Mcp-Param-Path: =?base64?")));
  assert.ok(all.includes("MCP-Protocol-Version: 2026-07-28"));
});

test("tsugi call gets the values as one JSON word", () => {
  const all = words(copyAs("tsugi", recipe));
  assert.deepEqual(JSON.parse(all[all.indexOf("--json") + 1]!), recipe.values);
});

test("a key is named, never shown", () => {
  for (const language of LANGUAGES) assert.match(copyAs(language, { ...recipe, needsKey: true }), /TSUGI_KEY/);
});

test("python literals are python", () => {
  assert.equal(pythonValue({ a: [true, false, null, 1.5, "x\"y"] }), '{"a": [True, False, None, 1.5, "x\\"y"]}');
});

test("shell words survive a shell", () => {
  for (const text of ["plain", "two words", "it's", "$(rm -rf /)", "", "a\nb"]) assert.deepEqual(words(`curl ${shellWord(text)}`), [text]);
});

test("a command line is split as a shell would", () => {
  assert.deepEqual(splitWords(`npx -y "a b" 'c "d"' e\\ f ""`), ["npx", "-y", "a b", 'c "d"', "e f", ""]);
  assert.deepEqual(splitWords("  "), []);
});

test("the line for a client has its header where the gateway wants a key", () => {
  assert.equal(clientLine("http://127.0.0.1:7600", false), "claude mcp add --transport http tsugi http://127.0.0.1:7600/mcp");
  assert.match(clientLine("http://127.0.0.1:7600", true), /--header "Authorization: Bearer YOUR_KEY"$/);
});
