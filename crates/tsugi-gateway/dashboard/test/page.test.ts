import { strict as assert } from "node:assert";
import { test } from "node:test";
import { faultOf } from "../src/lib/api";
import { advance, axis, closed, line } from "../src/lib/chart";
import { span } from "../src/lib/format";
import { fill } from "../src/lib/i18n";
import { events } from "../src/lib/mcp";
import { Conflict, differences, faultFrom, isStale, leaseLeft, leaseTone, moveNeeds, OwnSteps, type Task, type TaskRow } from "../src/lib/pm";
import { parse, to } from "../src/lib/route";
import { en } from "../src/text/en";
import { ja } from "../src/text/ja";

test("both languages fill the same blanks", () => {
  const blanks = (text: string) => [...text.matchAll(/\{\w+\}/g)].map((one) => one[0]).sort();
  for (const key of Object.keys(en) as (keyof typeof en)[]) assert.deepEqual(blanks(ja[key]), blanks(en[key]), key);
  assert.equal(fill("{a} of {b}", { a: 1 }), "1 of {b}");
});

test("an address keeps names that look like addresses", () => {
  assert.deepEqual(parse(to("try", "a/b", "tool", "c?d#e")).parts, ["try", "a/b", "tool", "c?d#e"]);
  assert.deepEqual(parse("#/calls?server=x").query.get("server"), "x");
  assert.deepEqual(parse("#/%zz").parts, ["%zz"]);
});

test("faults are read in every shape in which they come", () => {
  assert.equal(faultOf(404, { error: { code: "NOT_FOUND", message: "no such server", hint: "look" } }).hint, "look");
  assert.equal(faultOf(400, { error: { code: -32602, message: "bad" } }).message, "bad");
  assert.equal(faultOf(200, { error: { code: -31006, message: "x", data: { code: "SERVER_CRASHED" } } }).code, "SERVER_CRASHED");
  assert.equal(faultOf(500, { error: "text" }).message, "text");
  assert.equal(faultOf(502, null).message, "HTTP 502");
});

test("a conflict brings what is true now", () => {
  const current = { id: "tsk_1", ref: "WEB-1", title: "theirs", status: "review", version: 5, labels: ["x"] } as unknown as Task;
  const fault = faultFrom({ error: { code: "version_conflict", message: "WEB-1 is at version 5", details: { current: current as never } } }, {});
  assert.ok(fault instanceof Conflict && fault.current.version === 5);
  assert.deepEqual(differences({ title: "mine", labels: ["x"], description: "" }, current), [{ field: "title", mine: "mine", theirs: "theirs" }]);
});

test("the page goes on from its own steps and never over those of others", () => {
  const steps = new OwnSteps();
  steps.made("tsk_1", 3);
  steps.made("tsk_1", 4);
  steps.made("tsk_1", 7);
  assert.equal(steps.follow("tsk_1", 2), 4);
  assert.equal(steps.follow("tsk_1", 5), 5);
  assert.equal(steps.follow("tsk_1", 6), 7);
  assert.equal(steps.follow("tsk_2", 2), 2);
});

test("moves ask for words where the rules want them", () => {
  assert.equal(moveNeeds("todo", "in_progress"), null);
  assert.equal(moveNeeds("in_progress", "review"), "summary");
  assert.equal(moveNeeds("in_progress", "blocked"), "reason");
  assert.equal(moveNeeds("done", "todo"), "reason");
  assert.equal(moveNeeds("review", "todo"), "reason");
});

test("silence and leases are measured from the times of the server", () => {
  const task = { status: "in_progress", updated_at: 0 } as TaskRow;
  assert.equal(isStale(task, 3_600_000), false);
  assert.equal(isStale(task, 3_600_001), true);
  assert.equal(leaseLeft({ renewed_at: 0, expires_at: 100 }, 75), 0.25);
  assert.equal(leaseLeft({ renewed_at: 0, expires_at: 100 }, 500), 0);
  // A lease that was renewed late in a long hold is whole again.
  assert.deepEqual([0, 75, 76, 100].map((now) => leaseTone({ renewed_at: 0, expires_at: 100 }, now)), ["good", "good", "low", "gone"]);
});

test("an axis ends at a round number above the highest value", () => {
  assert.deepEqual(axis(7), { top: 8, ticks: [0, 2, 4, 6, 8] });
  assert.deepEqual(axis(0), { top: 1, ticks: [0, 1] });
  for (const most of [0.003, 1, 9.99, 101, 12345]) assert.ok(axis(most).top >= most && axis(most).ticks.length <= 6, String(most));
});

test("a missing value is a gap in the line", () => {
  assert.equal(line([1, null, 2], (at) => at, (value) => value), "M0.0 1.0M2.0 2.0");
});

test("the ring goes on by seconds and stays bounded", () => {
  const second = { spark: [0, 3], errorRate: 0, p50: 1, p99: 2 };
  const first = [{ at: 1000, calls: 1, errors: 0, p50: 1, p99: 5 }];
  assert.deepEqual(advance(first, 10_000, 5000, second), [{ at: 1000, calls: 4, errors: 0, p50: 1, p99: 5 }]);
  assert.deepEqual(advance(first, 10_000, 12_000, second)[1], { at: 11_000, calls: 3, errors: 0, p50: 1, p99: 2 });
  let points = first;
  for (let at = 0; at < 400; at += 1) points = advance(points, 10_000, 11_000 + at * 10_000, second);
  assert.equal(points.length, 360);
});

test("the step that is still running is not drawn", () => {
  const point = (at: number, calls: number) => ({ at, calls, errors: 0, p50: 1, p99: 2 });
  assert.deepEqual(closed([point(0, 100), point(10_000, 6)]), [point(0, 100)]);
  assert.deepEqual(closed([]), []);
});

test("events are cut out of a stream wherever it is broken", async () => {
  const text = ": hello\n\nevent: message\ndata: {\"a\":1}\n\ndata: two\r\ndata: lines\r\n\r\n";
  for (const size of [1, 3, 7, 1000]) {
    const pieces = text.match(new RegExp(`[\\s\\S]{1,${size}}`, "g"))!;
    const body = new ReadableStream<Uint8Array>({ start(controller) { for (const piece of pieces) controller.enqueue(new TextEncoder().encode(piece)); controller.close(); } });
    const got: string[] = [];
    for await (const data of events(body)) got.push(data);
    assert.deepEqual(got, ['{"a":1}', "two\nlines"], String(size));
  }
});

test("long times are written in their two largest units", () => {
  assert.deepEqual([0, 59_000, 61_000, 7_980_000, 90_000_000, 1e9].map(span), ["0 s", "59 s", "1 m 1 s", "2 h 13 m", "1 d 1 h", "11 d"]);
});
