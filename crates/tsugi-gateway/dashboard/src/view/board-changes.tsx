/** What an event changed, field by field; long texts line by line. */

import { lineDiff } from "../lib/diff";
import { moment } from "../lib/format";
import { word } from "../lib/i18n";
import type { HistoryEvent } from "../lib/pm";
import { isObject } from "../lib/schema";
import type { Json } from "../lib/types";
import type { Crew } from "./board";

/** What says nothing to somebody who follows the work. */
const DULL = new Set(["id", "version", "fence", "created_at", "updated_at", "started_at", "completed_at", "project_id", "number", "next_number", "session_id", "created_by", "policy", "hash", "blocked_reason"]);
/** What says nothing to anybody. */
const NOISE = new Set(["id", "version", "updated_at", "hash", "title_key", "project_id", "task_id"]);

export function Changes({ event, crew, isFull }: { event: HistoryEvent; crew: Crew; isFull: boolean }) {
  // Who follows the work wants to know what became of tasks; the rest is in a task's own history.
  if (!isFull && (event.entity_type !== "task" || event.type.endsWith(".created"))) return null;
  const shown = isFull ? event.changes.filter((one) => !NOISE.has(one.field) && !(isNothing(one.old) && isNothing(one.new))) : event.changes.filter((one) => !DULL.has(one.field)).slice(0, 6);
  return <>{shown.map((one) => <Changed key={one.field} field={one.field} before={one.old} after={one.new} crew={crew} isFull={isFull} />)}</>;
}

function isNothing(value: Json): boolean {
  return value === null || value === "" || (Array.isArray(value) && value.length === 0);
}

function Changed({ field, before, after, crew, isFull }: { field: string; before: Json; after: Json; crew: Crew; isFull: boolean }) {
  const isText = typeof before === "string" && typeof after === "string";
  if (isFull && isText && (before.includes("\n") || after.includes("\n") || before.length + after.length > 160)) {
    return (
      <div class="change"><span class="sub">{word("task", field)}</span>
        <pre class="diff">{lineDiff(before, after).map((line, at) => <span key={at} class={line.sign === "+" ? "added" : line.sign === "-" ? "removed" : ""}>{line.sign} {line.text}{"\n"}</span>)}</pre>
      </div>
    );
  }
  const most = isFull ? 2000 : 90;
  return <div class="change"><span class="sub">{word("task", field)}</span> {isNothing(before) ? null : <><del>{write(before, field, crew, most)}</del> → </>}<ins>{write(after, field, crew, most)}</ins></div>;
}

function write(value: Json, field: string, crew: Crew, most: number): string {
  if (isNothing(value)) return "–";
  if (field.endsWith("agent_id") || field === "assignee_id" || field === "created_by" || field === "accepted_by") return typeof value === "string" ? crew.name(value) : "–";
  if (field.endsWith("_at") && typeof value === "number") return moment(value);
  if (field === "status" && typeof value === "string") return word("status", value);
  if (field === "priority" && typeof value === "string") return word("priority", value);
  if (field === "result" && isObject(value)) return write(value.summary ?? null, "", crew, most);
  if (field === "review" && isObject(value)) return [value.verdict, value.notes].filter((one) => typeof one === "string").join(": ");
  if (field === "acceptance" && Array.isArray(value)) return `${value.filter((one) => isObject(one) && one.done === true).length}/${value.length}`;
  if (Array.isArray(value) && value.every((one) => typeof one === "string")) return value.join(", ");
  const text = typeof value === "string" ? value : JSON.stringify(value);
  return text.length > most ? `${text.slice(0, most)}…` : text;
}
