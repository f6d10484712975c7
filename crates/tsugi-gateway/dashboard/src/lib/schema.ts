/** JSON Schema as a form needs it: which control, which first value, what is wrong with what was typed. */

import type { Json, JsonObject, Schema } from "./types";

export type Kind = "object" | "map" | "array" | "choice" | "choices" | "constant" | "string" | "number" | "integer" | "boolean" | "null" | "union" | "any";

/** How deep first values are made; recursive schemas end here. */
const DEEPEST = 6;
/** Expressions come from strangers: long ones, and those that repeat a repetition, could hang the page. */
const LONGEST_PATTERN = 300;
const LONGEST_MATCHED = 2000;

export interface Problem {
  /** Where, as a JSON pointer. */
  path: string;
  /** Which message, and what to put into it. */
  key: ProblemKey;
  args: Record<string, string | number>;
}

export type ProblemKey =
  | "form.required" | "form.type" | "form.enum" | "form.const" | "form.minimum" | "form.maximum" | "form.above" | "form.below"
  | "form.multiple" | "form.minLength" | "form.maxLength" | "form.pattern" | "form.format" | "form.minItems" | "form.maxItems"
  | "form.unique" | "form.unknown" | "form.minProperties" | "form.maxProperties" | "form.union" | "form.never";

export function isObject(value: unknown): value is JsonObject {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** The schema itself, with a local `$ref` followed and `allOf` merged. Nothing is ever fetched. */
export function resolve(schema: Schema | boolean | undefined, root: Schema, depth = 0): Schema {
  if (!isSchema(schema) || depth > 20) return {};
  if (schema.$ref !== undefined) {
    const { $ref, ...beside } = schema;
    return merge(resolve(follow($ref, root), root, depth + 1), beside);
  }
  if (schema.allOf !== undefined) {
    const { allOf, ...rest } = schema;
    return allOf.reduce<Schema>((merged, part) => merge(merged, resolve(part, root, depth + 1)), rest);
  }
  return schema;
}

function isSchema(schema: unknown): schema is Schema {
  return isObject(schema);
}

function follow(reference: string, root: Schema): Schema | undefined {
  if (reference === "#") return root;
  if (!reference.startsWith("#/")) return undefined;
  let here: unknown = root;
  for (const part of reference.slice(2).split("/")) {
    if (!isObject(here)) return undefined;
    const name = decodeURIComponent(part).replace(/~1/g, "/").replace(/~0/g, "~");
    here = Object.hasOwn(here, name) ? here[name] : undefined;
  }
  return isSchema(here) ? here : undefined;
}

function merge(one: Schema, other: Schema): Schema {
  const merged: Schema = { ...one, ...other };
  if (one.properties && other.properties) merged.properties = { ...one.properties, ...other.properties };
  if (one.required && other.required) merged.required = [...new Set([...one.required, ...other.required])];
  return merged;
}

/** Types a schema allows, without `null`. */
function types(schema: Schema): string[] {
  const all = Array.isArray(schema.type) ? schema.type : schema.type === undefined ? [] : [schema.type];
  return all.filter((type) => type !== "null");
}

export function isNullable(schema: Schema): boolean {
  return Array.isArray(schema.type) && schema.type.includes("null");
}

/** Which control shows a (resolved) schema. */
export function kindOf(schema: Schema, root: Schema): Kind {
  if (schema.const !== undefined) return "constant";
  if (schema.enum !== undefined) return "choice";
  if (titled(schema.oneOf ?? schema.anyOf) !== null) return "choice";
  if (variants(schema, root).length > 0) return "union";
  const allowed = types(schema);
  if (allowed.length > 1) return "union";
  switch (allowed[0] ?? guess(schema)) {
    case "object":
      return schema.properties === undefined && isSchema(schema.additionalProperties) ? "map" : schema.properties === undefined ? "any" : "object";
    case "array": {
      const items = resolve(schema.items, root);
      return schema.prefixItems === undefined && options(items) !== null ? "choices" : "array";
    }
    case "string":
      return "string";
    case "number":
      return "number";
    case "integer":
      return "integer";
    case "boolean":
      return "boolean";
    case "null":
      return "null";
    default:
      return isNullable(schema) || schema.type === "null" ? "null" : "any";
  }
}

function guess(schema: Schema): string | undefined {
  if (schema.properties !== undefined || schema.additionalProperties !== undefined) return "object";
  if (schema.items !== undefined || schema.prefixItems !== undefined) return "array";
  if (schema.minimum !== undefined || schema.maximum !== undefined) return "number";
  if (schema.pattern !== undefined || schema.format !== undefined || schema.maxLength !== undefined) return "string";
  return undefined;
}

export interface Option {
  value: Json;
  label: string;
}

/** The choices of an enumeration, also of the `oneOf: [{const, title}]` form; null when it is none. */
export function options(schema: Schema): Option[] | null {
  if (schema.enum !== undefined) {
    return schema.enum.map((value, at) => ({ value, label: schema.enumNames?.[at] ?? wordOf(value) }));
  }
  return titled(schema.oneOf ?? schema.anyOf);
}

function titled(parts: (Schema | boolean)[] | undefined): Option[] | null {
  if (parts === undefined || parts.length === 0) return null;
  const all: Option[] = [];
  for (const part of parts) {
    if (!isSchema(part) || part.const === undefined) return null;
    all.push({ value: part.const, label: part.title ?? wordOf(part.const) });
  }
  return all;
}

function wordOf(value: Json): string {
  return typeof value === "string" ? value : JSON.stringify(value);
}

/** The alternatives of a union; empty when the schema is none. A single alternative beside `null` is no union. */
export function variants(schema: Schema, root: Schema): Schema[] {
  const parts = schema.oneOf ?? schema.anyOf;
  if (parts !== undefined) {
    const { oneOf: _one, anyOf: _any, ...beside } = schema;
    return parts.map((part) => merge(beside.properties ? beside : {}, resolve(part, root)));
  }
  const allowed = types(schema);
  if (allowed.length < 2) return [];
  return (schema.type as string[]).map((type) => ({ ...schema, type }));
}

/**
 * What an optional member may be when `null` is the only other choice. Leaving it out says the same as `null`, so a form
 * needs no control for that.
 */
export function withoutNull(schema: Schema, root: Schema): Schema {
  const all = variants(schema, root);
  const rest = all.filter((variant) => variant.type !== "null" && variant.const !== null);
  if (all.length !== 2 || rest.length !== 1) return schema;
  const { oneOf: _one, anyOf: _any, type: _type, default: fallback, ...beside } = schema;
  return { ...beside, ...rest[0], ...(schema.title ? { title: schema.title } : {}), ...(fallback === undefined || fallback === null ? {} : { default: fallback }) };
}

/** An alternative without the members that only say which one it is. They are in the value, and the choice shows them. */
export function withoutConstants(variant: Schema): Schema {
  if (variant.properties === undefined) return variant;
  const shown = Object.entries(variant.properties).filter(([, property]) => !isSchema(property) || property.const === undefined);
  return { ...variant, properties: Object.fromEntries(shown) };
}

/** A name for one alternative of a union. */
export function variantName(schema: Schema, at: number): string {
  if (schema.title) return schema.title;
  for (const [name, property] of Object.entries(schema.properties ?? {})) {
    if (isSchema(property) && property.const !== undefined) return `${name}: ${wordOf(property.const)}`;
  }
  if (schema.const !== undefined) return wordOf(schema.const);
  if (typeof schema.type === "string") return schema.type === "object" && schema.required?.length ? `{ ${schema.required.join(", ")} }` : schema.type;
  if (schema.enum) return schema.enum.map(wordOf).slice(0, 3).join(" | ");
  return `#${at + 1}`;
}

/** The alternative that fits a value best. */
export function bestVariant(schema: Schema, value: Json | undefined, root: Schema): number {
  const all = variants(schema, root);
  if (value === undefined) return 0;
  const faults = all.map((variant) => validate(variant, value, root).length);
  return Math.max(0, faults.indexOf(Math.min(...faults)));
}

/** What a form begins with: defaults and whatever is required; the rest stays absent. */
export function initial(unresolved: Schema | boolean | undefined, root: Schema, isRequired = true, depth = 0): Json | undefined {
  const schema = resolve(unresolved, root);
  // An optional member whose default is null is as good as left out, and a form shows it that way.
  if (schema.default === null && !isRequired) return undefined;
  if (schema.default !== undefined) return structuredClone(schema.default);
  if (!isRequired || depth > DEEPEST) return undefined;
  switch (kindOf(schema, root)) {
    case "constant":
      return structuredClone(schema.const as Json);
    case "object":
      return initialObject(schema, root, depth);
    case "map":
      return {};
    case "array":
    case "choices":
      return Array.from({ length: Math.min(schema.minItems ?? 0, 20) }, () => initial(schema.items, root, true, depth + 1) ?? null);
    case "boolean":
      return false;
    case "null":
      return null;
    case "union":
      return initial(variants(schema, root)[0], root, true, depth + 1);
    default:
      return undefined;
  }
}

function initialObject(schema: Schema, root: Schema, depth: number): JsonObject {
  const value: JsonObject = {};
  for (const [name, property] of Object.entries(schema.properties ?? {})) {
    const first = initial(property, root, schema.required?.includes(name) ?? false, depth + 1);
    if (first !== undefined) put(value, name, first);
  }
  return value;
}

/** Sets a property, also one called `__proto__`. */
export function put(object: JsonObject, name: string, value: Json): void {
  Object.defineProperty(object, name, { value, enumerable: true, configurable: true, writable: true });
}

/** What is wrong with a value. It is advice while typing; the gateway decides. */
export function validate(unresolved: Schema | boolean | undefined, value: Json | undefined, root: Schema, path = "", depth = 0): Problem[] {
  if (unresolved === false) return [{ path, key: "form.never", args: {} }];
  if (depth > 40) return [];
  const schema = resolve(unresolved, root);
  if (value === undefined) return [{ path, key: "form.required", args: {} }];
  const problems: Problem[] = [];
  const say = (key: ProblemKey, args: Problem["args"] = {}) => problems.push({ path, key, args });
  if (!fitsType(schema, value)) {
    say("form.type", { type: [schema.type].flat().join(" | ") });
    return problems;
  }
  if (schema.const !== undefined && !equal(schema.const, value)) say("form.const", { value: JSON.stringify(schema.const) });
  if (schema.enum !== undefined && !schema.enum.some((one) => equal(one, value))) say("form.enum");
  if (typeof value === "number") checkNumber(schema, value, say);
  if (typeof value === "string") checkString(schema, value, say);
  if (Array.isArray(value)) problems.push(...checkArray(schema, value, root, path, depth, say));
  if (isObject(value)) problems.push(...checkObject(schema, value, root, path, depth, say));
  const parts = schema.oneOf ?? schema.anyOf;
  if (parts !== undefined && parts.length > 0) {
    const faults = parts.map((part) => validate(part, value, root, path, depth + 1));
    if (!faults.some((one) => one.length === 0)) {
      const nearest = faults.reduce((best, one) => (one.length < best.length ? one : best));
      if (titled(parts) !== null) say("form.enum");
      else problems.push(...(nearest.length > 0 ? nearest : [{ path, key: "form.union" as const, args: {} }]));
    }
  }
  return problems;
}

type Say = (key: ProblemKey, args?: Problem["args"]) => void;

function fitsType(schema: Schema, value: Json): boolean {
  if (schema.type === undefined) return true;
  return [schema.type].flat().some((type) => {
    switch (type) {
      case "object": return isObject(value);
      case "array": return Array.isArray(value);
      case "integer": return typeof value === "number" && Number.isInteger(value);
      case "null": return value === null;
      default: return typeof value === type;
    }
  });
}

function checkNumber(schema: Schema, value: number, say: Say): void {
  if (schema.minimum !== undefined && value < schema.minimum) say("form.minimum", { limit: schema.minimum });
  if (schema.maximum !== undefined && value > schema.maximum) say("form.maximum", { limit: schema.maximum });
  if (schema.exclusiveMinimum !== undefined && value <= schema.exclusiveMinimum) say("form.above", { limit: schema.exclusiveMinimum });
  if (schema.exclusiveMaximum !== undefined && value >= schema.exclusiveMaximum) say("form.below", { limit: schema.exclusiveMaximum });
  const step = schema.multipleOf;
  if (step !== undefined && step > 0 && Math.abs(value / step - Math.round(value / step)) > 1e-9) say("form.multiple", { limit: step });
}

function checkString(schema: Schema, value: string, say: Say): void {
  const length = [...value].length;
  if (schema.minLength !== undefined && length < schema.minLength) say("form.minLength", { limit: schema.minLength });
  if (schema.maxLength !== undefined && length > schema.maxLength) say("form.maxLength", { limit: schema.maxLength });
  if (schema.pattern !== undefined && !matches(schema.pattern, value)) say("form.pattern", { pattern: schema.pattern });
  if (schema.format !== undefined && !fitsFormat(schema.format, value)) say("form.format", { format: schema.format });
}

function matches(pattern: string, value: string): boolean {
  const isCostly = pattern.length > LONGEST_PATTERN || value.length > LONGEST_MATCHED || /[+*}][^)]*\)[+*{]/.test(pattern) || /\([^)]*\|[^)]*\)[+*{]/.test(pattern);
  if (isCostly) return true;
  try {
    return new RegExp(pattern, "u").test(value);
  } catch {
    return true;
  }
}

function fitsFormat(format: string, value: string): boolean {
  switch (format) {
    case "email": return /^[^\s@]+@[^\s@]+$/.test(value);
    case "uri": return URL.canParse(value);
    case "date": return /^\d{4}-\d{2}-\d{2}$/.test(value) && !Number.isNaN(Date.parse(value));
    case "date-time": return /^\d{4}-\d{2}-\d{2}[Tt ]\d{2}:\d{2}/.test(value) && !Number.isNaN(Date.parse(value));
    case "uuid": return /^[0-9a-f]{8}-([0-9a-f]{4}-){3}[0-9a-f]{12}$/i.test(value);
    default: return true;
  }
}

function checkArray(schema: Schema, value: Json[], root: Schema, path: string, depth: number, say: Say): Problem[] {
  if (schema.minItems !== undefined && value.length < schema.minItems) say("form.minItems", { limit: schema.minItems });
  if (schema.maxItems !== undefined && value.length > schema.maxItems) say("form.maxItems", { limit: schema.maxItems });
  if (schema.uniqueItems && value.length <= 500 && value.some((one, at) => value.findIndex((other) => equal(one, other)) < at)) say("form.unique");
  return value.slice(0, 500).flatMap((item, at) => {
    const part = schema.prefixItems?.[at] ?? schema.items;
    return part === undefined ? [] : validate(part, item, root, `${path}/${at}`, depth + 1);
  });
}

function checkObject(schema: Schema, value: JsonObject, root: Schema, path: string, depth: number, say: Say): Problem[] {
  const names = Object.keys(value);
  if (schema.minProperties !== undefined && names.length < schema.minProperties) say("form.minProperties", { limit: schema.minProperties });
  if (schema.maxProperties !== undefined && names.length > schema.maxProperties) say("form.maxProperties", { limit: schema.maxProperties });
  const problems: Problem[] = [];
  for (const name of schema.required ?? []) {
    if (!Object.hasOwn(value, name)) problems.push({ path: join(path, name), key: "form.required", args: {} });
  }
  for (const name of names) {
    const known = schema.properties !== undefined && Object.hasOwn(schema.properties, name) ? schema.properties[name] : undefined;
    if (known !== undefined) problems.push(...validate(known, value[name], root, join(path, name), depth + 1));
    else if (schema.additionalProperties === false) problems.push({ path: join(path, name), key: "form.unknown", args: { name } });
    else if (isSchema(schema.additionalProperties)) problems.push(...validate(schema.additionalProperties, value[name], root, join(path, name), depth + 1));
  }
  return problems;
}

/** A step further in a JSON pointer. */
export function join(path: string, name: string | number): string {
  return `${path}/${String(name).replace(/~/g, "~0").replace(/\//g, "~1")}`;
}

/** Whether two JSON values are the same. */
export function equal(one: Json | undefined, other: Json | undefined): boolean {
  if (one === other) return true;
  if (Array.isArray(one) && Array.isArray(other)) return one.length === other.length && one.every((item, at) => equal(item, other[at]));
  if (!isObject(one) || !isObject(other)) return false;
  const names = Object.keys(one);
  return names.length === Object.keys(other).length && names.every((name) => Object.hasOwn(other, name) && equal(one[name], other[name]));
}

/** What a text box holds, as the value its schema asks for: nothing typed is absent, and what is no number stays text. */
export function fromText(text: string, kind: Kind): Json | undefined {
  if (text === "") return undefined;
  if (kind !== "number" && kind !== "integer") return text;
  const number = Number(text);
  return text.trim() === "" || !Number.isFinite(number) ? text : number;
}

/** Arguments that a server wants mirrored into headers (`x-mcp-header`, 2026-07-28), by header name. */
export function headerValues(schema: Schema | undefined, value: Json | undefined, found: Record<string, string> = {}): Record<string, string> {
  for (const [name, property] of Object.entries(schema?.properties ?? {})) {
    const given = isObject(value) && Object.hasOwn(value, name) ? value[name] : undefined;
    if (!isSchema(property) || given === undefined || given === null) continue;
    const header = property["x-mcp-header"];
    if (typeof header === "string" && /^[!#$%&'*+.^_`|~0-9A-Za-z-]+$/.test(header) && typeof given !== "object") {
      found[`Mcp-Param-${header}`] = headerText(String(given));
    }
    headerValues(property, given, found);
  }
  return found;
}

/** A value as a header can carry it: plain ASCII as it is, everything else in the base64 form of the specification. */
export function headerText(value: string): string {
  const isPlain = /^[\x21-\x7e]([\x20-\x7e\t]*[\x21-\x7e])?$/.test(value) && !(value.startsWith("=?base64?") && value.endsWith("?="));
  if (isPlain) return value;
  const bytes = new TextEncoder().encode(value);
  return `=?base64?${btoa(Array.from(bytes, (byte) => String.fromCharCode(byte)).join(""))}?=`;
}
