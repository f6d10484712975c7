/** One task: what it is, what it waits for, who holds it, what was learnt, what happened. */

import { useEffect, useState } from "preact/hooks";
import { ago, minute, moment } from "../lib/format";
import { t, word } from "../lib/i18n";
import { change, Conflict, type Context, loadTask, PRIORITIES, type Priority, type Project, type Status, STATUSES, type Task, type TaskDetail, type TaskRow } from "../lib/pm";
import { whyNotWrite } from "../lib/rights";
import { to } from "../lib/route";
import { now, toast, toastError } from "../lib/store";
import { onPm } from "../lib/stream";
import { Fault, IconButton, Loading, Prose, refusing } from "../part/basics";
import { canWrite, type Crew } from "./board";
import { Verdict } from "./board-people";
import { Events } from "./board-timeline";
import { EditTask } from "./task-edit";

interface Props {
  id: string;
  crew: Crew;
  project: Project;
  onMove: (task: TaskRow, to: Status) => void;
  onChange: () => void;
  onClose: () => void;
}

export function TaskPanel({ id, crew, project, onMove, onChange, onClose }: Props) {
  const [detail, setDetail] = useState<TaskDetail | null>(null);
  const [fault, setFault] = useState<unknown>(null);
  const load = () => loadTask(id).then((told) => { setDetail(told); setFault(null); }, setFault);
  useEffect(() => {
    setDetail(null);
    void load();
    return onPm((event) => { if (event.project === null || event.project === project.id) void load(); });
  }, [id]);
  useEffect(() => {
    const key = (event: KeyboardEvent) => { if (event.key === "Escape" && document.querySelector("dialog[open]") === null) onClose(); };
    addEventListener("keydown", key);
    return () => removeEventListener("keydown", key);
  }, []);
  return (
    <aside class="drawer" aria-label={t("task")}>
      {fault !== null ? <><IconButton icon="close" label={t("close")} onClick={onClose} /><Fault error={fault} /></> : detail === null ? <Loading /> : <Loaded detail={detail} crew={crew} onMove={onMove} onChange={() => { void load(); onChange(); }} onClose={onClose} />}
    </aside>
  );
}

function Loaded({ detail, crew, onMove, onChange, onClose }: { detail: TaskDetail; crew: Crew; onMove: Props["onMove"]; onChange: () => void; onClose: () => void }) {
  const { task } = detail;
  const [isEditing, setEditing] = useState(false);
  return (
    <>
      <div class="dialog-head"><p class="mono sub">{task.ref}</p><span class="grow" />{!isEditing && <button type="button" {...refusing(whyNotWrite(), () => setEditing(true))}>{t("task.edit")}</button>}<IconButton icon="close" label={t("close")} onClick={onClose} /></div>
      {isEditing ? <EditTask task={task} onClose={() => setEditing(false)} onDone={() => { setEditing(false); onChange(); }} /> : (
        <>
          <h2 class="task-title">{task.title}</h2>
          <Controls task={task} crew={crew} onMove={onMove} onChange={onChange} />
          {task.blocked_reason && <p class="notice bad">{task.blocked_reason}</p>}
          {task.status === "review" && <div class="notice busy"><p><b>{t("task.result")}</b> {task.result?.summary}</p><Verdict task={task} onChange={onChange} /></div>}
          {task.description && <Prose text={task.description} most={1200} />}
          <Acceptance task={task} onChange={onChange} />
        </>
      )}
      <Prerequisites detail={detail} onChange={onChange} />
      <Links title={t("task.unblocks")} tasks={detail.dependents ?? []} />
      <Holding detail={detail} crew={crew} />
      <Notes task={task} contexts={detail.contexts ?? []} crew={crew} onChange={onChange} />
      {(detail.history?.length ?? 0) > 0 && <section><h3>{t("task.history")}</h3><Events events={[...detail.history!].sort((one, other) => other.seq - one.seq)} tasks={[task]} crew={crew} /></section>}
    </>
  );
}

function Controls({ task, crew, onMove, onChange }: { task: Task; crew: Crew; onMove: Props["onMove"]; onChange: () => void }) {
  const set = async (field: string, value: string) => {
    try {
      await change("update_task", { task_id: task.id, [field]: value, expected_version: task.version });
    } catch (error) {
      if (error instanceof Conflict) toast("bad", t("task.changed", { ref: task.ref }), t("task.changed.hint"));
      else toastError(error);
    }
    onChange();
  };
  const why = whyNotWrite();
  const isFixed = why !== null;
  return (
    <div class="controls" title={why ?? undefined}>
      <label><span>{t("task.status")}</span><select disabled={isFixed} value={task.status} onChange={(event) => { const wanted = event.currentTarget.value as Status; event.currentTarget.value = task.status; onMove(task, wanted); }}>{STATUSES.map((one) => <option key={one} value={one}>{t(`status.${one}`)}</option>)}</select></label>
      <label><span>{t("task.priority")}</span><select disabled={isFixed} value={task.priority} onChange={(event) => set("priority", event.currentTarget.value as Priority)}>{PRIORITIES.map((one) => <option key={one} value={one}>{t(`priority.${one}`)}</option>)}</select></label>
      <label><span>{t("board.assignee")}</span><select disabled={isFixed} value={task.assignee_id ?? ""} onChange={(event) => set("assignee_id", event.currentTarget.value)}>{!task.assignee_id && <option value="">{t("board.nobody")}</option>}{task.assignee_id && !crew.agents.some((agent) => agent.id === task.assignee_id) && <option value={task.assignee_id}>{task.assignee_id}</option>}{crew.agents.map((agent) => <option key={agent.id} value={agent.id}>{crew.name(agent.id)}</option>)}</select></label>
    </div>
  );
}

function Acceptance({ task, onChange }: { task: Task; onChange: () => void }) {
  if (!task.acceptance?.length) return null;
  const toggle = async (at: number, isDone: boolean) => {
    await change("update_task", { task_id: task.id, acceptance: isDone ? { check: [at] } : { uncheck: [at] } }).catch(toastError);
    onChange();
  };
  return (
    <section>
      <h3>{t("task.acceptance")}</h3>
      <ul class="checklist">{task.acceptance.map((one, at) => <li key={at}><label class="check" title={whyNotWrite() ?? undefined}><input type="checkbox" disabled={!canWrite()} checked={one.done} onChange={(event) => toggle(at, event.currentTarget.checked)} />{one.text}</label></li>)}</ul>
    </section>
  );
}

/** What must be done first; a reference adds to it. */
function Prerequisites({ detail, onChange }: { detail: TaskDetail; onChange: () => void }) {
  const [wanted, setWanted] = useState("");
  const { task } = detail;
  const edit = (args: { add: string[] } | { remove: string[] }) => change("update_dependencies", { task_id: task.id, ...args }).then(() => setWanted(""), toastError).then(onChange);
  const tasks = detail.dependencies ?? [];
  if (!canWrite()) return <Links title={t("task.waitsFor")} tasks={tasks} />;
  return (
    <section>
      <h3>{t("task.waitsFor")}</h3>
      <ul class="links">{tasks.map((one) => <li key={one.id}><TaskLink task={one} /> <button type="button" class="link small" onClick={() => edit({ remove: [one.id] })}>{t("form.remove")}<span class="hidden"> {one.ref}</span></button></li>)}</ul>
      <form class="inline" onSubmit={(event) => { event.preventDefault(); if (wanted.trim() !== "") void edit({ add: [wanted.trim()] }); }}>
        <label class="hidden" for="prerequisite">{t("task.waitsFor.add")}</label>
        <input id="prerequisite" class="mono short" placeholder={t("task.waitsFor.add")} autocomplete="off" value={wanted} onInput={(event) => setWanted(event.currentTarget.value)} />
        <button type="submit" class="quiet" disabled={wanted.trim() === ""}>{t("form.add")}<span class="hidden"> {t("task.waitsFor")}</span></button>
      </form>
    </section>
  );
}

function TaskLink({ task }: { task: TaskRow }) {
  return <><a href={to("board", task.ref)}><span class="mono">{task.ref}</span> {task.title}</a> <span class={`chip ${task.status === "done" ? "good" : task.status === "blocked" || task.status === "cancelled" ? "bad" : "plain"}`}>{t(`status.${task.status}`)}</span></>;
}

function Links({ title, tasks }: { title: string; tasks: TaskRow[] }) {
  if (tasks.length === 0) return null;
  return <section><h3>{title}</h3><ul class="links">{tasks.map((task) => <li key={task.id}><TaskLink task={task} /></li>)}</ul></section>;
}

function Holding({ detail, crew }: { detail: TaskDetail; crew: Crew }) {
  const { claim, handoff } = detail;
  const past = (detail.claim_history ?? []).filter((one) => one.id !== claim?.id);
  if (!claim && !handoff && past.length === 0) return null;
  return (
    <section>
      <h3>{t("task.holding")}</h3>
      {claim && <p><b>{crew.name(claim.agent_id)}</b> {t("board.since", { time: minute(claim.acquired_at) })} · {t("board.lease", { when: minute(claim.expires_at) })}</p>}
      {past.map((one) => <p key={one.id} class="sub">{t("task.held", { who: crew.name(one.agent_id), when: moment(one.acquired_at) })}</p>)}
      {handoff && (
        <div class="handoff">
          <p><span class="chip warn">{t("board.kind.handoff")} · {word("handoff", handoff.status)}</span> {crew.name(handoff.from_agent_id)} → {handoff.to_agent_id ? crew.name(handoff.to_agent_id) : t("task.anybody")}</p>
          <Prose text={handoff.summary} most={400} />
          {handoff.next_steps.length > 0 && <ol class="steps">{handoff.next_steps.map((step, at) => <li key={at}>{step}</li>)}</ol>}
          {handoff.warnings.map((warning, at) => <p key={at} class="warn-text">{warning}</p>)}
        </div>
      )}
    </section>
  );
}

const ORDER = ["decision", "blocker", "assumption", "note", "reference", "artifact"];

function Notes({ task, contexts, crew, onChange }: { task: Task; contexts: Context[]; crew: Crew; onChange: () => void }) {
  const [text, setText] = useState("");
  const [type, setType] = useState("note");
  const send = async (event: Event) => {
    event.preventDefault();
    if (text.trim() === "") return;
    try {
      await change("add_context", { task_id: task.id, type, content: text.trim() });
      setText("");
    } catch (error) {
      toastError(error);
    }
    onChange();
  };
  const shown = contexts.filter((one) => one.state === "active").sort((one, other) => ORDER.indexOf(one.type) - ORDER.indexOf(other.type) || other.created_at - one.created_at);
  return (
    <section>
      <h3>{t("task.contexts")}</h3>
      <ul class="contexts">{shown.map((one) => <li key={one.id} class={one.type}><p class="sub"><b>{word("context", one.type)}</b> · {crew.name(one.agent_id)} · {ago(one.created_at, now.value)}</p><Prose text={one.content} /></li>)}</ul>
      {canWrite() ? (
        <form class="comment" onSubmit={send}>
          <label class="hidden" for="comment">{t("task.comment")}</label>
          <textarea id="comment" rows={2} placeholder={t("task.comment")} value={text} onInput={(event) => setText(event.currentTarget.value)} onKeyDown={(event) => { if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) void send(event); }} />
          <div class="actions"><label class="hidden" for="comment-type">{t("task.comment.type")}</label><select id="comment-type" value={type} onChange={(event) => setType(event.currentTarget.value)}>{["note", "decision", "assumption", "blocker"].map((one) => <option key={one} value={one}>{word("context", one)}</option>)}</select><button type="submit" disabled={text.trim() === ""}>{t("task.comment.send")}</button></div>
        </form>
      ) : <p class="note">{whyNotWrite()}</p>}
    </section>
  );
}
