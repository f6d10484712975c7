import { strict as assert } from "node:assert";
import { test } from "node:test";
import { fromQuery, isFiltered, NO_FILTER, passes, prepend, toQuery } from "../src/lib/filter";
import type { CallRow } from "../src/lib/types";

const row = (change: Partial<CallRow> = {}): CallRow => ({ id: 1, at: 1, server: "files", tool: "read_file", method: "tools/call", caller: "Claude", face: "mcp", outcome: "ok", durationMs: 12, bytes: 1, error: null, requestId: null, ...change });

test("a filter survives the address", () => {
  const filter = { server: "files", tool: "re ad", caller: "a&b", outcome: "failed" as const, minMs: 2.5 };
  assert.deepEqual(fromQuery(new URLSearchParams(toQuery(filter))), filter);
  assert.equal(isFiltered(NO_FILTER), false);
});

test("what makes no sense in an address is left out", () => {
  assert.deepEqual(fromQuery(new URLSearchParams("outcome=constructor&minMs=-3")), NO_FILTER);
  assert.deepEqual(fromQuery(new URLSearchParams("minMs=abc")), NO_FILTER);
});

test("each condition narrows", () => {
  assert.ok(passes(row(), NO_FILTER));
  assert.ok(passes(row(), { ...NO_FILTER, tool: "READ", caller: "claude", minMs: 12 }));
  for (const change of [{ server: "time" }, { tool: "write" }, { caller: "cursor" }, { outcome: "failed" as const }, { minMs: 12.1 }]) assert.equal(passes(row(), { ...NO_FILTER, ...change }), false);
  assert.ok(passes(row({ tool: null, method: "resources/list" }), { ...NO_FILTER, tool: "resources" }));
});

test("new rows come first, once, and the list is bounded", () => {
  const old = [row({ id: 2, at: 2 }), row({ id: 1, at: 1 })];
  assert.deepEqual(prepend(old, [row({ id: 3, at: 3 }), row({ id: 2, at: 2 })], 10).map((one) => one.id), [3, 2, 1]);
  assert.deepEqual(prepend(old, [row({ id: 4, at: 4 }), row({ id: 3, at: 3 })], 3).map((one) => one.id), [4, 3, 2]);
  assert.equal(prepend(old, [row({ id: 1, at: 1 })], 3), old);
});
