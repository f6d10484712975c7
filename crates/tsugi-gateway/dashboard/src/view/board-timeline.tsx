/** What agents and people did, newest first: by whom, about what, and to take away. */

import { useEffect, useRef, useState } from "preact/hooks";
import { session } from "../lib/api";
import { ago, moment } from "../lib/format";
import { t, word } from "../lib/i18n";
import { type HistoryEvent, look, type Project, type TimelineView } from "../lib/pm";
import { to } from "../lib/route";
import { now } from "../lib/store";
import { onPm } from "../lib/stream";
import type { JsonObject } from "../lib/types";
import { Empty, Fault, Loading } from "../part/basics";
import type { Crew } from "./board";
import { Changes } from "./board-changes";
import { Verify } from "./board-verify";

/** Events of one look. */
const PIECE = 100;
/** Kinds of things that something happens to. */
const KINDS = ["task", "claim", "handoff", "context", "dependency", "session", "membership", "project"] as const;

export type TimelineFilter = { agent_id?: string; task_id?: string; kind?: string };

/** Follows a part of the history; what is shown stays shown while new things come before it. */
export function useTimeline(project: Project, filter: TimelineFilter, isFull: boolean) {
  const [told, setTold] = useState<TimelineView | null>(null);
  const [fault, setFault] = useState<unknown>(null);
  const [count, setCount] = useState(PIECE);
  const timer = useRef<ReturnType<typeof setTimeout> | null>(null);
  const turn = useRef(0);
  const wish = JSON.stringify({ project_id: project.id, ...filter, full: isFull });
  const load = async () => {
    timer.current = null;
    const mine = ++turn.current;
    try {
      const found = await loadEvents(JSON.parse(wish) as JsonObject, count);
      if (mine === turn.current) { setTold(found); setFault(null); }
    } catch (error) {
      if (mine === turn.current) setFault(error);
    }
  };
  useEffect(() => {
    void load();
    const stop = onPm((event) => { if (event.project === null || event.project === project.id) timer.current ??= setTimeout(load, 300); });
    return () => { stop(); if (timer.current !== null) clearTimeout(timer.current); timer.current = null; turn.current += 1; };
  }, [wish, count]);
  return { told, fault, more: () => setCount(count + PIECE) };
}

async function loadEvents(wish: JsonObject, count: number): Promise<TimelineView> {
  const found = await look<TimelineView>("get_timeline", { ...wish, limit: PIECE });
  while (found.has_more && found.events.length < count) {
    const next = await look<TimelineView>("get_timeline", { ...wish, limit: PIECE, before_seq: found.events.at(-1)!.seq });
    found.events.push(...next.events);
    Object.assign(found.tasks, next.tasks);
    found.has_more = next.has_more;
  }
  return found;
}

export function Timeline({ project, crew }: { project: Project; crew: Crew }) {
  const [who, setWho] = useState("");
  const [task, setTask] = useState("");
  const [kind, setKind] = useState("");
  const isTask = /^[A-Z][A-Z0-9]+-\d+$/i.test(task.trim());
  const filter: TimelineFilter = { ...(who ? { agent_id: who } : {}), ...(isTask ? { task_id: task.trim().toUpperCase() } : {}), ...(kind ? { kind } : {}) };
  const { told, fault, more } = useTimeline(project, filter, false);
  const query = new URLSearchParams({ project_id: project.id, ...filter });
  const mayVerify = session.value?.role === "admin" || session.value?.readOnly === true;
  return (
    <>
      <form class="filter" role="search" aria-label={t("timeline.filter")} onSubmit={(event) => event.preventDefault()}>
        <label><span>{t("board.who")}</span><select value={who} onChange={(event) => setWho(event.currentTarget.value)}><option value="">{t("all")}</option>{crew.agents.map((agent) => <option key={agent.id} value={agent.id}>{crew.name(agent.id)}</option>)}</select></label>
        <label><span>{t("task")}</span><input class="mono short" placeholder={`${project.key}-1`} autocomplete="off" value={task} onInput={(event) => setTask(event.currentTarget.value)} /></label>
        <label><span>{t("timeline.kind")}</span><select value={kind} onChange={(event) => setKind(event.currentTarget.value)}><option value="">{t("all")}</option>{KINDS.map((one) => <option key={one} value={one}>{t(`entity.${one}`)}</option>)}</select></label>
        <span class="grow" />
        <span class="exports"><span class="sub">{t("timeline.export")}</span><a href={`/api/board/events.jsonl?${query}`} download="events.jsonl">JSONL</a><a href={`/api/board/events.csv?${query}`} download="events.csv">CSV</a></span>
      </form>
      {mayVerify && <Verify />}
      {fault !== null ? <Fault error={fault} /> : told === null ? <Loading /> : told.events.length === 0 ? <Empty title={t("board.quiet")} /> : <Events events={told.events} tasks={told.tasks} crew={crew} />}
      {told?.has_more && <button type="button" class="link" onClick={more}>{t("calls.more")}</button>}
    </>
  );
}

/** The task that an event is about, if it says so. */
function taskOf(event: HistoryEvent): string | null {
  if (event.entity_type === "task") return event.entity_id;
  const named = event.changes.find((one) => one.field === "task_id");
  const id = named?.new ?? named?.old;
  return typeof id === "string" ? id : null;
}

export function Events({ events, tasks, crew, isFull = false }: { events: HistoryEvent[]; tasks: TimelineView["tasks"]; crew: Crew; isFull?: boolean }) {
  return (
    <ol class="events">
      {events.map((event) => {
        const task = tasks[taskOf(event) ?? ""];
        return (
          <li key={event.id}>
            <time class="sub num" dateTime={new Date(event.at).toISOString()} title={moment(event.at)}>{ago(event.at, now.value)}</time>
            <div><b>{event.actor_agent_id === null ? t("board.system") : crew.name(event.actor_agent_id)}</b> {word("event", event.type)} {task && <a href={to("board", task.ref)}><span class="mono">{task.ref}</span> {!isFull && task.title}</a>}
              <Changes event={event} crew={crew} isFull={isFull} />
              {event.reason && <span class="reason-text">“{event.reason}”</span>}
            </div>
          </li>
        );
      })}
    </ol>
  );
}
