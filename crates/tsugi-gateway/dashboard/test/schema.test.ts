import { strict as assert } from "node:assert";
import { test } from "node:test";
import { bestVariant, fromText, headerText, headerValues, initial, kindOf, options, resolve, validate, variants } from "../src/lib/schema";
import type { Json, Schema } from "../src/lib/types";

const faults = (schema: Schema, value: Json | undefined) => validate(schema, value, schema).map((one) => `${one.path} ${one.key}`);

test("a control is chosen by what the schema allows", () => {
  const kinds: [Schema, string][] = [
    [{ type: "string" }, "string"],
    [{ type: "integer" }, "integer"],
    [{ type: ["string", "null"] }, "string"],
    [{ type: ["string", "number"] }, "union"],
    [{ enum: ["a", 1] }, "choice"],
    [{ type: "string", oneOf: [{ const: "#f00", title: "Red" }] }, "choice"],
    [{ type: "array", items: { type: "string", enum: ["a"] } }, "choices"],
    [{ type: "array", items: { anyOf: [{ const: "a", title: "A" }] } }, "choices"],
    [{ type: "array", items: { type: "object", properties: {} } }, "array"],
    [{ properties: { a: { type: "string" } } }, "object"],
    [{ type: "object", additionalProperties: { type: "string" } }, "map"],
    [{ type: "object" }, "any"],
    [{ const: 3 }, "constant"],
    [{ anyOf: [{ type: "string" }, { type: "object", properties: {} }] }, "union"],
    [{}, "any"],
  ];
  for (const [schema, kind] of kinds) assert.equal(kindOf(schema, schema), kind, JSON.stringify(schema));
});

test("a form begins with defaults and what is required, and nothing else", () => {
  const schema: Schema = {
    type: "object",
    properties: { must: { type: "boolean" }, may: { type: "string" }, preset: { type: "integer", default: 3 }, list: { type: "array", items: { type: "string" }, minItems: 2 }, kind: { const: "x" } },
    required: ["must", "list", "kind"],
  };
  assert.deepEqual(initial(schema, schema), { must: false, preset: 3, list: [null, null], kind: "x" });
});

test("a schema that contains itself ends", () => {
  const schema: Schema = { type: "object", properties: { child: { $ref: "#" } }, required: ["child"] };
  assert.ok(JSON.stringify(initial(schema, schema)).length < 200);
  assert.deepEqual(resolve({ $ref: "#/$defs/a" }, { $defs: { a: { $ref: "#/$defs/a" } } }), {});
});

test("references are followed inside the schema and never outside", () => {
  const root: Schema = { $defs: { "a/b": { type: "integer" } } };
  assert.deepEqual(resolve({ $ref: "#/$defs/a~1b", title: "T" }, root), { type: "integer", title: "T" });
  assert.deepEqual(resolve({ $ref: "https://example.com/x.json" }, root), {});
  assert.deepEqual(resolve({ $ref: "#/constructor/name" }, root), {});
});

test("allOf is one form", () => {
  const merged = resolve({ allOf: [{ properties: { a: { type: "string" } }, required: ["a"] }, { properties: { b: { type: "string" } }, required: ["b"] }] }, {});
  assert.deepEqual(Object.keys(merged.properties ?? {}), ["a", "b"]);
  assert.deepEqual(merged.required, ["a", "b"]);
});

test("what is wrong is said where it is wrong", () => {
  const schema: Schema = {
    type: "object",
    properties: { name: { type: "string", minLength: 2, pattern: "^[a-z]+$" }, age: { type: "integer", minimum: 0, maximum: 9 }, mail: { type: "string", format: "email" }, tags: { type: "array", items: { type: "string" }, maxItems: 1, uniqueItems: true } },
    required: ["name"],
    additionalProperties: false,
  };
  assert.deepEqual(faults(schema, {}), ["/name form.required"]);
  assert.deepEqual(faults(schema, { name: "A" }), ["/name form.minLength", "/name form.pattern"]);
  assert.deepEqual(faults(schema, { name: "ab", age: 1.5 }), ["/age form.type"]);
  assert.deepEqual(faults(schema, { name: "ab", age: 10, mail: "x", extra: 1 }), ["/age form.maximum", "/mail form.format", "/extra form.unknown"]);
  assert.deepEqual(faults(schema, { name: "ab", tags: ["a", "a", 3] }), ["/tags form.maxItems", "/tags form.unique", "/tags/2 form.type"]);
  assert.deepEqual(faults(schema, { name: "ab", age: 3, mail: "a@b", tags: ["x"] }), []);
});

test("a union takes what fits one of its kinds, and the nearest one explains", () => {
  const schema: Schema = { oneOf: [{ type: "object", properties: { kind: { const: "card" }, last4: { type: "string" } }, required: ["kind", "last4"] }, { type: "object", properties: { kind: { const: "cash" } }, required: ["kind"] }] };
  assert.equal(variants(schema, schema).length, 2);
  assert.equal(bestVariant(schema, { kind: "cash" }, schema), 1);
  assert.deepEqual(faults(schema, { kind: "cash" }), []);
  assert.deepEqual(faults(schema, { kind: "card" }), ["/last4 form.required"]);
});

// Were it run, this test would not end.
test("an expression that could hang the page is not run", () => {
  assert.deepEqual(faults({ type: "string", pattern: "^(a+)+$" }, "a".repeat(40) + "!"), []);
});

test("names of strangers cannot reach the prototype", () => {
  const schema: Schema = JSON.parse('{"type":"object","properties":{"__proto__":{"type":"string","default":"x"}}}') as Schema;
  const value = initial(schema, schema) as Record<string, Json>;
  assert.equal(Object.getPrototypeOf(value), Object.prototype);
  assert.deepEqual(faults({ type: "object", required: ["constructor"] }, {}), ["/constructor form.required"]);
});

test("choices keep their titles", () => {
  assert.deepEqual(options({ oneOf: [{ const: "#f00", title: "Red" }] }), [{ value: "#f00", label: "Red" }]);
  assert.deepEqual(options({ enum: ["a", 1] }), [{ value: "a", label: "a" }, { value: 1, label: "1" }]);
});

test("an empty box is absent and a half-typed number is still text", () => {
  assert.equal(fromText("", "string"), undefined);
  assert.equal(fromText("1e3", "number"), 1000);
  assert.equal(fromText("1x", "number"), "1x");
});

test("headers carry what the specification says, in its encoding", () => {
  // The examples of 2026-07-28, "Value Encoding".
  assert.equal(headerText("us-west1"), "us-west1");
  assert.equal(headerText("Hello, 世界"), "=?base64?SGVsbG8sIOS4lueVjA==?=");
  assert.equal(headerText(" padded "), "=?base64?IHBhZGRlZCA=?=");
  assert.equal(headerText("line1\nline2"), "=?base64?bGluZTEKbGluZTI=?=");
  assert.equal(headerText("=?base64?literal?="), "=?base64?PT9iYXNlNjQ/bGl0ZXJhbD89?=");
  const schema: Schema = { type: "object", properties: { region: { type: "string", "x-mcp-header": "Region" }, deep: { type: "object", properties: { n: { type: "integer", "x-mcp-header": "N" } } } } };
  assert.deepEqual(headerValues(schema, { region: "eu", deep: { n: 7 } }), { "Mcp-Param-Region": "eu", "Mcp-Param-N": "7" });
  assert.deepEqual(headerValues(schema, { region: null }), {});
});
