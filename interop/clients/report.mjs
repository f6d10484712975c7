// What every client in TypeScript's SDKs shares: the features to try, one after the other, and the report.

const SERVERS = ["old", "new"];

/** Runs an attempt against the legacy server and the modern one, and prints one JSON line. */
export async function feature(name, attempt) {
  for (const server of SERVERS) {
    try {
      await within(30_000, attempt(server));
    } catch (error) {
      console.error(error);
      return console.log(JSON.stringify({ feature: name, error: `${server}: ${error}` }));
    }
  }
  console.log(JSON.stringify({ feature: name }));
}

function within(milliseconds, promise) {
  let timer;
  const late = new Promise((_, reject) => {
    timer = setTimeout(() => reject(new Error("it hangs")), milliseconds);
  });
  return Promise.race([promise, late]).finally(() => clearTimeout(timer));
}

/** Complains unless both are equal. */
export function same(found, expected) {
  const [one, two] = [JSON.stringify(found), JSON.stringify(expected)];
  if (one !== two) throw new Error(`${one} is not ${two}`);
}

/** Complains unless the list has the item. */
export function has(list, item) {
  if (!list.includes(item)) throw new Error(`${item} is not among ${list}`);
}

/** Tries every feature. `callTool` hides in what order each SDK takes its arguments. */
export async function tryAll(client, callTool) {
  const said = async (tool, args = {}, options = {}) => {
    const result = await callTool({ name: tool, arguments: args }, options);
    if (result.isError) throw new Error(JSON.stringify(result));
    return result.content[0].text;
  };
  await feature("list", async (server) => {
    has((await client.listTools()).tools.map((tool) => tool.name), `${server}__echo`);
    has((await client.listResources()).resources.map((resource) => resource.uri), `${server}://text`);
    has((await client.listPrompts()).prompts.map((prompt) => prompt.name), `${server}__greet`);
  });
  await feature("call", async (server) => same(await said(`${server}__echo`, { message: "hi" }), "hi"));
  await feature("read", async (server) => {
    const result = await client.readResource({ uri: `${server}://text` });
    same(result.contents[0].text, `some ${server} text`);
  });
  await feature("get", async (server) => {
    const result = await client.getPrompt({ name: `${server}__greet`, arguments: { name: "Ann" } });
    same(result.messages[0].content.text, "Greet Ann.");
  });
  await feature("progress", async (server) => {
    const steps = [];
    const onprogress = (heard) => steps.push([heard.progress, heard.total]);
    same(await said(`${server}__count`, { steps: 3 }, { onprogress }), "done");
    same(steps, [[1, 3], [2, 3], [3, 3]]);
  });
  await feature("elicit", async (server) => same(await said(`${server}__ask`), "hello Ann"));
  await feature("cancel", async (server) => {
    const before = await said(`${server}__given_up`);
    const abort = new AbortController();
    // The call has begun when it tells its first progress.
    const options = { onprogress: () => abort.abort(new Error("enough")), signal: abort.signal };
    const outcome = await said(`${server}__wait`, {}, options).catch((error) => `${error}`);
    if (!outcome.includes("enough")) throw new Error(`not given up: ${outcome}`);
    while ((await said(`${server}__given_up`)) === before) await new Promise((next) => setTimeout(next, 50));
  });
}
