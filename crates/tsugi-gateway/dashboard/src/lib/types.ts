/** What the gateway tells the page; see the contract of the `/api` routes. */

export type Json = null | boolean | number | string | Json[] | { [key: string]: Json };
export type JsonObject = { [key: string]: Json };

export interface Session {
  authRequired: boolean;
  signedIn: boolean;
  role: "admin" | "user" | "reader" | null;
  name: string | null;
  csrf: string | null;
  version: string;
  pm: boolean;
  /** Whether there is an audit log that this person may read. */
  audit: boolean;
  allowAdd: boolean;
  /** Whether programs may be added, not only addresses. */
  allowCommands?: boolean;
  /** Whether the key is for looking only. */
  readOnly?: boolean;
  /** All servers, where they were asked for together with this. */
  overview?: Overview | null;
  /** Where one can sign in without a key. */
  providers?: Provider[];
  /** After signing out: where one can sign out at the provider, too. */
  logout?: string | null;
}

export interface Provider {
  label: string;
  address: string;
}

/** Where a change of the servers was written down. */
export interface Kept {
  file: string | null;
  whyNot: string | null;
}

export interface ServerRow {
  name: string;
  state: string;
  reason: string | null;
  era: string | null;
  revision: string | null;
  transport: string;
  startedAt: number | null;
  restarts: number;
  pid: number | null;
  tools: number;
  resources: number;
  prompts: number;
  callsPerSecond: number;
  errorRate: number;
  p50: number | null;
  p99: number | null;
  spark: number[];
  sandbox: string | null;
}

export interface Attention {
  server: string;
  kind: string;
  text: string;
}

export interface Overview {
  now: number;
  startedAt: number;
  version: string;
  listen: string[];
  servers: ServerRow[];
  attention: Attention[];
}

export interface Tool {
  name: string;
  title?: string;
  description?: string;
  inputSchema?: Schema;
  outputSchema?: Schema;
  annotations?: { title?: string; readOnlyHint?: boolean; destructiveHint?: boolean; idempotentHint?: boolean; openWorldHint?: boolean };
}

export interface Resource {
  uri: string;
  name: string;
  title?: string;
  description?: string;
  mimeType?: string;
  size?: number;
}

export interface ResourceTemplate {
  uriTemplate: string;
  name: string;
  title?: string;
  description?: string;
  mimeType?: string;
}

export interface Prompt {
  name: string;
  title?: string;
  description?: string;
  arguments?: { name: string; title?: string; description?: string; required?: boolean }[];
}

export interface Process {
  pid: number;
  parent: number | null;
  command: string;
  rssBytes: number | null;
  cpuMs: number | null;
}

export interface ServerDetail extends Omit<ServerRow, "tools" | "resources" | "prompts"> {
  title: string | null;
  instructions: string | null;
  capabilities: JsonObject | null;
  serverInfo: JsonObject | null;
  processes: Process[];
  sandboxReport: Json;
  config: Json;
  stderr: string[];
  recentCalls: CallRow[];
  tools: Tool[];
  resources: Resource[];
  templates: ResourceTemplate[];
  prompts: Prompt[];
}

export type Outcome = "ok" | "tool-error" | "failed" | "cancelled" | "input-required";
export const OUTCOMES: Outcome[] = ["ok", "tool-error", "failed", "cancelled", "input-required"];

export interface CallRow {
  id: string | number;
  at: number;
  server: string;
  tool: string | null;
  method: string;
  caller: string | null;
  /** The program that called, as it names itself. */
  client?: string | null;
  face: string;
  outcome: Outcome;
  durationMs: number;
  bytes: number | null;
  error: { code: string | number; message: string } | null;
  requestId: string | number | null;
}

export interface Stage {
  stage: string;
  startMs: number;
  durationMs: number;
  note: string | null;
}

export interface CallDetail extends Omit<CallRow, "error"> {
  timeline: Stage[];
  /** Which calls are recorded with arguments and results: `off`, `errors` or `all`. */
  record?: string;
  arguments?: Json;
  result?: Json;
  error: { code: string | number; message: string; details?: Json; hint?: string | null } | null;
}

export interface Point {
  at: number;
  calls: number;
  errors: number;
  p50: number | null;
  p99: number | null;
}

export interface Stats {
  at: number;
  callsPerSecond: number;
  errorRate: number;
  p50: number | null;
  p99: number | null;
  /** Calls in each of the last seconds. */
  spark: number[];
}

/** As much of JSON Schema as a form can use. */
export interface Schema {
  $ref?: string;
  $defs?: Record<string, Schema | boolean>;
  definitions?: Record<string, Schema | boolean>;
  type?: string | string[];
  title?: string;
  description?: string;
  default?: Json;
  examples?: Json[];
  enum?: Json[];
  enumNames?: string[];
  const?: Json;
  properties?: Record<string, Schema | boolean>;
  required?: string[];
  additionalProperties?: Schema | boolean;
  minProperties?: number;
  maxProperties?: number;
  items?: Schema | boolean;
  prefixItems?: (Schema | boolean)[];
  minItems?: number;
  maxItems?: number;
  uniqueItems?: boolean;
  minimum?: number;
  maximum?: number;
  exclusiveMinimum?: number;
  exclusiveMaximum?: number;
  multipleOf?: number;
  minLength?: number;
  maxLength?: number;
  pattern?: string;
  format?: string;
  contentMediaType?: string;
  anyOf?: (Schema | boolean)[];
  oneOf?: (Schema | boolean)[];
  allOf?: (Schema | boolean)[];
  "x-mcp-header"?: string;
}
