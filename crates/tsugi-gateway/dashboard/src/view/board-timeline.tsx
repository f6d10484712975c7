/** What agents and people did, newest first. */

import { useEffect, useRef, useState } from "preact/hooks";
import { ago, moment } from "../lib/format";
import { t, word } from "../lib/i18n";
import { type HistoryEvent, pm, type Project, type TaskRow } from "../lib/pm";
import { to } from "../lib/route";
import { now } from "../lib/store";
import { onPm } from "../lib/stream";
import { isObject } from "../lib/schema";
import type { Json } from "../lib/types";
import { Empty, Fault, Loading } from "../part/basics";
import type { Crew } from "./board";

/** Events that are kept on the page. */
const MOST = 200;

export function Timeline({ project, tasks, crew }: { project: Project; tasks: TaskRow[]; crew: Crew }) {
  const [events, setEvents] = useState<HistoryEvent[] | null>(null);
  const [fault, setFault] = useState<unknown>(null);
  const [who, setWho] = useState("");
  const timer = useRef<ReturnType<typeof setTimeout> | null>(null);
  const load = async () => {
    timer.current = null;
    try {
      setEvents((await pm<{ events: HistoryEvent[] }>("get_history", { project_id: project.id, newest: true, limit: MOST })).events);
    } catch (error) {
      setFault(error);
    }
  };
  useEffect(() => {
    void load();
    const stop = onPm(() => { timer.current ??= setTimeout(load, 300); });
    return () => { stop(); if (timer.current !== null) clearTimeout(timer.current); };
  }, [project.id]);
  if (fault !== null) return <Fault error={fault} />;
  if (events === null) return <Loading />;
  const shown = events.filter((event) => event.entity_type !== "claim" && (who === "" || event.actor_agent_id === who)).sort((one, other) => other.seq - one.seq);
  return (
    <>
      <form class="filter" onSubmit={(event) => event.preventDefault()}>
        <label><span>{t("board.who")}</span><select value={who} onChange={(event) => setWho(event.currentTarget.value)}><option value="">{t("all")}</option>{crew.agents.map((agent) => <option key={agent.id} value={agent.id}>{crew.name(agent.id)}</option>)}</select></label>
      </form>
      {shown.length === 0 ? <Empty title={t("board.quiet")} /> : <Events events={shown} tasks={tasks} crew={crew} />}
    </>
  );
}

export function Events({ events, tasks, crew }: { events: HistoryEvent[]; tasks: TaskRow[]; crew: Crew }) {
  return (
    <ol class="events">
      {events.map((event) => {
        const task = tasks.find((one) => one.id === event.entity_id);
        return (
          <li key={event.id}>
            <time class="sub num" dateTime={new Date(event.at).toISOString()} title={moment(event.at)}>{ago(event.at, now.value)}</time>
            <span><b>{event.actor_agent_id === null ? t("board.system") : crew.name(event.actor_agent_id)}</b> {word("event", event.type)} {task && <a href={to("board", task.ref)}><span class="mono">{task.ref}</span> {task.title}</a>}
              <Changes event={event} crew={crew} />
              {event.reason && <span class="reason-text">“{event.reason}”</span>}
            </span>
          </li>
        );
      })}
    </ol>
  );
}

const DULL = new Set(["id", "version", "fence", "created_at", "updated_at", "started_at", "completed_at", "project_id", "number", "next_number", "session_id", "created_by", "policy", "hash", "blocked_reason"]);

function Changes({ event, crew }: { event: HistoryEvent; crew: Crew }) {
  if (event.type.endsWith(".created") || event.type.endsWith(".added")) return null;
  const shown = event.changes.filter((change) => !DULL.has(change.field)).slice(0, 6);
  return (
    <>
      {shown.map((change) => <span key={change.field} class="change"><span class="sub">{word("task", change.field)}</span> {write(change.old, change.field, crew)} → {write(change.new, change.field, crew)}</span>)}
    </>
  );
}

function write(value: Json, field: string, crew: Crew): string {
  if (value === null || value === "") return "–";
  if (field === "assignee_id" && typeof value === "string") return crew.name(value);
  if (field === "status" && typeof value === "string") return word("status", value);
  if (field === "result" && isObject(value)) return write(value.summary ?? null, "", crew);
  if (field === "review" && isObject(value)) return [value.verdict, value.notes].filter((one) => typeof one === "string").join(": ");
  if (field === "acceptance" && Array.isArray(value)) return `${value.filter((one) => isObject(one) && one.done === true).length}/${value.length}`;
  const text = typeof value === "string" ? value : JSON.stringify(value);
  return text.length > 90 ? `${text.slice(0, 90)}…` : text;
}
