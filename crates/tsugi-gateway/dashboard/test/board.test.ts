import { strict as assert } from "node:assert";
import { test } from "node:test";
import { ApiError } from "../src/lib/api";
import { boardArguments, boardFilterOf, boardQuery, isBoardFiltered, NO_BOARD_FILTER } from "../src/lib/board-filter";
import { lineDiff } from "../src/lib/diff";
import { places } from "../src/lib/graph";
import { allowedMoves } from "../src/lib/pm";

test("a board's filter survives the address", () => {
  const filter = { text: "a & b", isMine: true, assignee: "agt_x", label: "ui", priority: "high", isReadyOnly: true } as const;
  const query = new URLSearchParams(boardQuery("WEB", "columns", filter));
  assert.equal(query.get("project"), "WEB");
  assert.deepEqual(boardFilterOf(query), filter);
  assert.deepEqual(boardFilterOf(new URLSearchParams("priority=odd")), NO_BOARD_FILTER);
  assert.deepEqual([isBoardFiltered(filter), isBoardFiltered(NO_BOARD_FILTER)], [true, false]);
});

test("what is not filtered is not asked for", () => {
  assert.deepEqual(boardArguments("prj_1", NO_BOARD_FILTER, {}), { project_id: "prj_1", cards: {} });
  assert.deepEqual(boardArguments("prj_1", { ...NO_BOARD_FILTER, text: " x ", isMine: true }, { todo: 80 }), { project_id: "prj_1", text: "x", mine: true, cards: { todo: 80 } });
});

test("a diff shows what went and what came, and little around it", () => {
  const before = ["a", "b", "c", "d", "e", "f", "g"].join("\n");
  const lines = lineDiff(before, before.replace("d", "D"));
  assert.deepEqual(lines.map((line) => line.sign + line.text), [" …", " b", " c", "-d", "+D", " e", " f", " …"]);
  assert.deepEqual(lineDiff("", "new"), [{ sign: "+", text: "new" }]);
  assert.deepEqual(lineDiff("same", "same").filter((line) => line.sign !== " "), []);
  const long = Array.from({ length: 600 }, (_, at) => String(at)).join("\n");
  assert.equal(lineDiff(long, `${long}\nend`).length, 1201, "very long texts are not compared");
});

test("prerequisites stand left of a task, and circles end", () => {
  const found = places("t", [["t", "a"], ["a", "b"], ["w", "t"], ["b", "t"]]);
  assert.deepEqual(Object.fromEntries(found.map((one) => [one.id, one.depth])), { t: 0, a: -1, w: 1, b: 1 });
  assert.deepEqual(found.filter((one) => one.depth === 1).map((one) => one.row), [0, 1]);
});

test("a refused move names the moves there are", () => {
  const refusal = new ApiError(0, "invalid_transition", "no", null, { from: "todo", to: "done", allowed: ["in_progress", "odd"] });
  assert.deepEqual(allowedMoves(refusal), ["in_progress"]);
  assert.equal(allowedMoves(new ApiError(0, "denied", "no")), null);
});
