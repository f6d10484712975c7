// Turns src/ into the two files of dist/ that the gateway embeds.
//
//   node build.mjs          write dist/
//   node build.mjs --check  fail if dist/ is not what src/ gives
//   node build.mjs --test   run the tests of test/
//
// The result depends on the sources and the locked packages only, so a stale dist/ can be found by comparing.
import { build } from "esbuild";
import { spawnSync } from "node:child_process";
import { mkdtemp, readdir, readFile, rm, writeFile } from "node:fs/promises";
import { gzipSync } from "node:zlib";
import path from "node:path";
import { fileURLToPath } from "node:url";

const here = path.dirname(fileURLToPath(import.meta.url));
const dist = path.join(here, "dist");
/** What the whole page may weigh, compressed. */
const MOST_BYTES = 150 * 1024;
/** Where the style goes: in the document itself, so that the first picture waits for one answer only. */
const PLACE = /<style>[^<]*<\/style>/;

async function bundle() {
  const common = { bundle: true, minify: true, write: false, legalComments: "none", target: ["es2022"], logLevel: "warning", absWorkingDir: here };
  const script = await build({
    ...common,
    entryPoints: ["src/main.tsx"],
    outfile: "app.js",
    format: "esm",
    jsx: "automatic",
    jsxImportSource: "preact",
    charset: "utf8",
  });
  const style = await build({ ...common, entryPoints: ["src/style/app.css"], outfile: "app.css", charset: "utf8" });
  const css = style.outputFiles[0].text.trim();
  const html = await readFile(path.join(here, "src/index.html"), "utf8");
  if (css.includes("</style") || !PLACE.test(html)) throw new Error("the style cannot be put into the document");
  return {
    "index.html": Buffer.from(html.replace(PLACE, () => `<style>${css}</style>`)),
    "app.js": Buffer.from(script.outputFiles[0].contents),
  };
}

function weigh(files) {
  const bytes = Object.values(files).reduce((sum, file) => sum + gzipSync(file, { level: 9 }).length, 0);
  if (bytes > MOST_BYTES) throw new Error(`the page weighs ${bytes} bytes compressed; ${MOST_BYTES} are allowed`);
  return bytes;
}

async function write() {
  const files = await bundle();
  for (const [name, bytes] of Object.entries(files)) await writeFile(path.join(dist, name), bytes);
  console.log(`dist/ written: ${weigh(files)} bytes compressed`);
}

async function check() {
  const files = await bundle();
  const stale = [];
  for (const [name, bytes] of Object.entries(files)) {
    const committed = await readFile(path.join(dist, name)).catch(() => Buffer.alloc(0));
    if (!committed.equals(bytes)) stale.push(name);
  }
  if (stale.length > 0) throw new Error(`dist/ is stale: ${stale.join(", ")}; run scripts/dashboard build and commit it`);
  console.log(`dist/ is what src/ gives: ${weigh(files)} bytes compressed`);
}

async function test() {
  const out = await mkdtemp(path.join(here, "node_modules/.test-"));
  try {
    const names = (await readdir(path.join(here, "test"))).filter((name) => name.endsWith(".test.ts"));
    await build({
      entryPoints: names.map((name) => path.join(here, "test", name)),
      bundle: true, outdir: out, outExtension: { ".js": ".mjs" }, format: "esm", platform: "node", logLevel: "warning",
      jsx: "automatic", jsxImportSource: "preact",
    });
    const files = names.map((name) => path.join(out, name.replace(/\.ts$/, ".mjs")));
    const { status } = spawnSync(process.execPath, ["--test", "--test-reporter=dot", ...files], { stdio: "inherit" });
    if (status !== 0) throw new Error("tests failed");
  } finally {
    await rm(out, { recursive: true, force: true });
  }
}

const jobs = { "--check": check, "--test": test };
try {
  await (jobs[process.argv[2]] ?? write)();
} catch (error) {
  console.error(String(error.message ?? error));
  process.exit(1);
}
