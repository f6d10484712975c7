/** The page as an MCP client: revision 2026-07-28 over streamable HTTP, one POST for each request. */

import { ApiError, faultOf, guardHeaders, session } from "./api";
import { REVISION } from "./copy";
import { headerText } from "./schema";
import type { Json, JsonObject, Schema } from "./types";

export interface Progress {
  progress: number;
  total?: number;
  message?: string;
}

export interface LogNote {
  level: string;
  logger?: string;
  data: Json;
}

export interface InputRequest {
  method: string;
  params?: JsonObject & { mode?: string; message?: string; requestedSchema?: Schema; url?: string };
}

export interface InputRequired {
  resultType: "input_required";
  inputRequests?: Record<string, InputRequest>;
  requestState?: string;
}

export type Answer = JsonObject | InputRequired;

export interface Hooks {
  signal?: AbortSignal;
  onProgress?: (progress: Progress) => void;
  onLog?: (note: LogNote) => void;
  /** Headers beside the standard ones, such as `Mcp-Param-*`. */
  headers?: Record<string, string>;
  /** Whether a person is there to answer questions. */
  canAnswer?: boolean;
}

export function needsInput(answer: Answer): answer is InputRequired {
  return (answer as InputRequired).resultType === "input_required";
}

let lastId = 0;

/** Sends one request and waits for its outcome. Aborting the signal closes the stream, which is how a call is cancelled. */
export async function request(server: string, method: string, params: JsonObject, hooks: Hooks = {}): Promise<Answer> {
  const id = ++lastId;
  const name = params.name ?? params.uri;
  const headers: Record<string, string> = {
    "Content-Type": "application/json",
    Accept: "application/json, text/event-stream",
    "MCP-Protocol-Version": REVISION,
    "Mcp-Method": method,
    ...(typeof name === "string" ? { "Mcp-Name": headerText(name) } : {}),
    ...hooks.headers,
    ...guardHeaders(),
  };
  const body = JSON.stringify({ jsonrpc: "2.0", id, method, params: { ...params, _meta: meta(id, hooks) } });
  const options: RequestInit = { method: "POST", headers, body, credentials: "same-origin" };
  if (hooks.signal) options.signal = hooks.signal;
  const response = await fetch(`/servers/${encodeURIComponent(server)}/mcp`, options);
  if (response.headers.get("content-type")?.startsWith("text/event-stream") && response.body !== null) {
    return streamed(response, id, hooks);
  }
  const text = await response.text();
  return outcome(response.status, parse(text));
}

function meta(id: number, hooks: Hooks): JsonObject {
  return {
    "io.modelcontextprotocol/protocolVersion": REVISION,
    "io.modelcontextprotocol/clientInfo": { name: "tsugi-dashboard", version: session.value?.version ?? "0" },
    "io.modelcontextprotocol/clientCapabilities": hooks.canAnswer ? { elicitation: { form: {}, url: {} }, sampling: {} } : {},
    ...(hooks.onProgress ? { progressToken: id } : {}),
    ...(hooks.onLog ? { "io.modelcontextprotocol/logLevel": "info" } : {}),
  };
}

function parse(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return { error: { message: text.slice(0, 300) } };
  }
}

function outcome(status: number, message: unknown): Answer {
  const told = message as { result?: Answer; error?: unknown };
  if (told.result !== undefined) return told.result;
  throw faultOf(status, told);
}

async function streamed(response: Response, id: number, hooks: Hooks): Promise<Answer> {
  for await (const data of events(response.body!)) {
    const message = parse(data) as { id?: number; method?: string; params?: JsonObject };
    if (message.method === "notifications/progress") hooks.onProgress?.(message.params as unknown as Progress);
    else if (message.method === "notifications/message") hooks.onLog?.(message.params as unknown as LogNote);
    else if (message.id === id) return outcome(response.status, message);
  }
  throw new ApiError(0, "CONNECTION_LOST", "the stream ended without an answer", null);
}

/** The data of each event of a stream. */
export async function* events(body: ReadableStream<Uint8Array>): AsyncGenerator<string> {
  const reader = body.getReader();
  const decoder = new TextDecoder();
  let buffer = "";
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      buffer += decoder.decode(value, { stream: true });
      const blocks = buffer.split(/\r?\n\r?\n/);
      buffer = blocks.pop() ?? "";
      for (const block of blocks) {
        const data = block.split(/\r?\n/).filter((line) => line.startsWith("data:")).map((line) => line.slice(5).replace(/^ /, ""));
        if (data.length > 0) yield data.join("\n");
      }
    }
  } finally {
    reader.cancel().catch(() => undefined);
  }
}
