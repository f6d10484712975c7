/** The board's data: the tools of the built-in `pm` server, called like any other tool. */

import { ApiError, ask, session } from "./api";
import { request } from "./mcp";
import { isObject } from "./schema";
import type { Json, JsonObject } from "./types";

export const STATUSES = ["backlog", "todo", "in_progress", "review", "blocked", "done", "cancelled"] as const;
export type Status = (typeof STATUSES)[number];
export const PRIORITIES = ["critical", "high", "medium", "low"] as const;
export type Priority = (typeof PRIORITIES)[number];

export interface Project {
  id: string;
  key: string;
  name: string;
  status: string;
  role: string;
}

export interface TaskRow {
  id: string;
  ref: string;
  title: string;
  status: Status;
  priority: Priority;
  ready: boolean;
  waits_for?: number;
  assignee_id?: string | null;
  due_at?: number;
  updated_at: number;
  version: number;
}

export interface Task extends TaskRow {
  project_id: string;
  description?: string;
  acceptance?: { text: string; done: boolean }[];
  labels?: string[];
  blocked_reason?: string;
  result?: { summary: string };
  review?: { reviewer_id: string; verdict: string; at: number };
  created_by: string | null;
  created_at: number;
  started_at?: number;
}

/** A task on the board. */
export interface Card extends TaskRow {
  labels?: string[];
  waiting_on?: Prerequisite[];
  blocked_reason?: string;
  result?: string;
  created_by?: string;
}

export interface Prerequisite {
  id: string;
  ref: string;
  status: Status;
}

export interface Column {
  status: Status;
  total: number;
  cards: Card[];
}

export interface BoardView {
  project_status: "active" | "paused" | "archived";
  role: string;
  me: string | null;
  columns: Column[];
  labels: string[];
  done_days: number;
}

/** Something that waits for a person. */
export type Need =
  | { kind: "review" | "blocked" | "approval"; task: Card }
  | { kind: "handoff"; task: Card; id: string; from_agent_id: string; to_agent_id: string | null; handoff_kind: string; summary: string; created_at: number; expires_at: number }
  | { kind: "cancelled"; task: Card; prerequisites: Prerequisite[] }
  | { kind: "expired"; session_id: string; agent_id: string; client_name: string | null; last_activity_at: number; tasks: Card[] };

/** A task in somebody's hands. */
export interface Hold {
  id: string;
  task_id: string;
  ref: string;
  title: string;
  version: number;
  project: string;
  fence: number;
  acquired_at: number;
  renewed_at: number;
  expires_at: number;
  checkpoint?: string;
}

export interface Member {
  session_id: string;
  agent_id: string;
  state: string;
  client_name: string | null;
  client_version: string | null;
  project: string | null;
  started_at: number;
  last_activity_at: number;
  holds: Hold[];
}

export interface PastHold {
  id: string;
  agent_id: string;
  session_id: string;
  fence: number;
  state: string;
  acquired_at: number;
  expires_at: number;
  ended_at: number | null;
  end_reason: string | null;
}

export interface Story {
  handoffs: Handoff[];
  holds: PastHold[];
  graph: { tasks: Card[]; edges: [string, string][] };
}

export interface TimelineView {
  events: HistoryEvent[];
  has_more: boolean;
  tasks: Record<string, { ref: string; title: string }>;
}

/** How the database does. */
export interface State {
  engine: string;
  schema: number;
  schema_known: number;
  bytes: number;
  log_bytes: number;
  open_tasks: number;
  live_claims: number;
  expired_claims: number;
  active_sessions: number;
  disconnected_sessions: number;
  silent_sessions: number;
  pending_handoffs: number;
  now: number;
  oldest_unswept_lease: number | null;
  processes: { host: string; pid: number; heartbeat_at: number; sessions: number }[];
  notices_unheard: number;
  notices_for: number;
  version: string;
  pid: number;
}

export interface Context {
  id: string;
  agent_id: string;
  type: string;
  content: string;
  uri: string | null;
  state: string;
  created_at: number;
}

export interface Handoff {
  id: string;
  task_id: string;
  from_agent_id: string | null;
  to_agent_id: string | null;
  kind: string;
  summary: string;
  next_steps: string[];
  warnings: string[];
  status: string;
  accepted_by: string | null;
  accepted_at: number | null;
  reason: string | null;
  created_at: number;
}

export interface HistoryEvent {
  seq: number;
  id: string;
  at: number;
  entity_type: string;
  entity_id: string;
  type: string;
  actor_agent_id: string | null;
  reason: string | null;
  changes: { field: string; old: Json; new: Json }[];
}

export interface TaskDetail {
  task: Task;
  contexts?: Context[];
  dependencies?: TaskRow[];
  dependents?: TaskRow[];
  checkpoint?: string;
}

export interface Agent {
  id: string;
  name: string;
  type: string;
  online: boolean;
  live_claims: number;
}

/** Somebody else was faster. Carries what is true now. */
export class Conflict extends ApiError {
  constructor(message: string, readonly current: Task) {
    super(409, "version_conflict", message);
  }
}

/** The session of this page, made only when the person has several and one must be named. */
let ownSession: string | null = null;

/** Calls a tool of `pm`; gives its structured content, or throws its error. */
export async function pm<T>(tool: string, args: JsonObject): Promise<T> {
  try {
    return await once<T>(tool, args);
  } catch (error) {
    if (!(error instanceof ApiError) || error.code !== "session_ambiguous") throw error;
    ownSession ??= (await once<{ session_id: string }>("start_session", { client_note: "dashboard" })).session_id;
    return once<T>(tool, { ...args, session_id: ownSession });
  }
}

async function once<T>(tool: string, args: JsonObject): Promise<T> {
  // Who may only look cannot call tools; for them the gateway looks at the board itself.
  if (session.value?.readOnly) return ask<T>(`/api/board/${tool}?arguments=${encodeURIComponent(JSON.stringify(args))}`);
  const answer = (await request("pm", "tools/call", { name: tool, arguments: args })) as JsonObject;
  const told = answer.structuredContent;
  if (answer.isError === true) throw faultFrom(told, answer);
  return told as T;
}

export function faultFrom(told: Json | undefined, answer: JsonObject): ApiError {
  const fault = isObject(told) && isObject(told.error) ? told.error : null;
  if (fault === null) return new ApiError(0, "pm", JSON.stringify(answer.content ?? answer));
  const details = isObject(fault.details) ? fault.details : null;
  if (fault.code === "version_conflict" && isObject(details?.current)) return new Conflict(String(fault.message), details.current as unknown as Task);
  return new ApiError(0, String(fault.code), String(fault.message), typeof fault.hint === "string" ? fault.hint : null, details);
}

/** Changes of one task go one after the other, each with a key so that a retry does it once. */
export function change<T>(tool: string, args: JsonObject): Promise<T> {
  const task = String(args.task_id ?? "");
  const turn = (turns.get(task) ?? Promise.resolve()).then(async () => {
    const expected = args.expected_version;
    const sent = typeof expected === "number" ? { ...args, expected_version: ownSteps.follow(task, expected) } : args;
    const told = await pm<T>(tool, { ...sent, idempotency_key: crypto.randomUUID() });
    const changed = (told as { task?: Task }).task;
    if (changed !== undefined) ownSteps.made(changed.id, changed.version);
    return told;
  });
  turns.set(task, turn.catch(() => undefined));
  return turn;
}

const turns = new Map<string, Promise<unknown>>();

/**
 * The steps from version to version that this page itself made. Who checks a box and moves the task at once has not been
 * overtaken by anybody, so the page goes on from its own step; a step of somebody else is never skipped.
 */
export class OwnSteps {
  private readonly steps = new Map<string, number>();

  made(task: string, version: number): void {
    if (this.steps.size > 500) this.steps.clear();
    this.steps.set(`${task}@${version - 1}`, version);
  }

  follow(task: string, seen: number): number {
    let version = seen;
    for (let next = this.steps.get(`${task}@${version}`); next !== undefined; next = this.steps.get(`${task}@${version}`)) version = next;
    return version;
  }
}

const ownSteps = new OwnSteps();

/** Looks at the board in a way that only people do; no tool answers this. */
export function look<T>(name: string, args: JsonObject = {}): Promise<T> {
  return ask<T>(`/api/board/${name}?arguments=${encodeURIComponent(JSON.stringify(args))}`);
}

/** Changes something that no tool changes. */
export function order<T>(name: string, args: JsonObject): Promise<T> {
  return ask<T>(`/api/board/${name}`, "POST", args);
}

export function loadTask(id: string): Promise<TaskDetail> {
  return pm("get_task", { task_id: id, include: ["description", "acceptance", "contexts", "dependencies", "claim"], max_bytes: 262144 });
}

/** The prompt with which an agent begins this task, as the server itself writes it. */
export async function taskPrompt(ref: string): Promise<string> {
  const answer = (await request("pm", "prompts/get", { name: "task_start", arguments: { task_id: ref } })) as JsonObject;
  const messages = Array.isArray(answer.messages) ? answer.messages : [];
  const texts = messages.map((one) => (isObject(one) && isObject(one.content) && typeof one.content.text === "string" ? one.content.text : ""));
  return texts.filter((one) => one !== "").join("\n\n");
}

/** What a move needs to be told besides the column. */
export function moveNeeds(from: Status, to: Status): "reason" | "summary" | null {
  if (to === "blocked" || to === "cancelled" || (from === "done" && to === "todo")) return "reason";
  if (from === "review" && to === "todo") return "reason";
  if (from === "in_progress" && (to === "review" || to === "done")) return "summary";
  return null;
}

/** Moves a task that was seen at a version; if it is at another one by now, nothing happens and [`Conflict`] says what is. */
export async function moveTask(task: Pick<TaskRow, "id" | "version" | "status">, to: Status, text: string): Promise<Task> {
  const needs = moveNeeds(task.status, to);
  const args: JsonObject = { task_id: task.id, status: to, expected_version: task.version };
  if (needs === "reason") args.reason = text;
  if (needs === "summary") args.result = { summary: text };
  const { task: moved } = await change<{ task: Task }>("update_task_status", args);
  return moved;
}

/** How long a task in progress may be silent before it stands out. */
export const STALE_AFTER = 60 * 60 * 1000;

export function isStale(task: TaskRow, now: number): boolean {
  return task.status === "in_progress" && now - task.updated_at > STALE_AFTER;
}

/** The part of a lease that is left since its holder last touched the task, between 0 and 1. */
export function leaseLeft(hold: Pick<Hold, "renewed_at" | "expires_at">, now: number): number {
  const whole = hold.expires_at - hold.renewed_at;
  return whole <= 0 ? 0 : Math.max(0, Math.min(1, (hold.expires_at - now) / whole));
}

/** How a lease stands: less than a quarter left is little. */
export function leaseTone(hold: Pick<Hold, "renewed_at" | "expires_at">, now: number): "good" | "low" | "gone" {
  const left = leaseLeft(hold, now);
  return left === 0 ? "gone" : left < 0.25 ? "low" : "good";
}

/** The statuses to which a refused move could have gone instead, if the refusal names them. */
export function allowedMoves(error: unknown): Status[] | null {
  if (!(error instanceof ApiError) || error.code !== "invalid_transition" || !isObject(error.details)) return null;
  const { allowed } = error.details;
  return Array.isArray(allowed) ? allowed.filter((one): one is Status => STATUSES.includes(one as Status)) : null;
}

/** Fields in which two versions of a task differ, for a person to judge. */
export function differences(mine: Record<string, Json>, theirs: Task): { field: string; mine: Json; theirs: Json }[] {
  const other = theirs as unknown as Record<string, Json | undefined>;
  return Object.entries(mine)
    .map(([field, value]) => ({ field, mine: value, theirs: other[field] ?? null }))
    .filter((one) => JSON.stringify(one.mine ?? null) !== JSON.stringify(one.theirs) && !(isBlank(one.mine) && isBlank(one.theirs)));
}

function isBlank(value: Json): boolean {
  return value === null || value === "" || (Array.isArray(value) && value.length === 0);
}
