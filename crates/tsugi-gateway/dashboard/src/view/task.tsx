/** One task: what it is, what it waits for, who holds it, what was learnt, what happened. */

import { useEffect, useState } from "preact/hooks";
import { ago } from "../lib/format";
import { t, word } from "../lib/i18n";
import { change, Conflict, type Context, loadTask, look, PRIORITIES, type Priority, type Project, type Status, STATUSES, type Story, type Task, type TaskDetail, taskPrompt, type TaskRow } from "../lib/pm";
import { whyNotCall, whyNotWrite } from "../lib/rights";
import { to } from "../lib/route";
import { now, toast, toastError } from "../lib/store";
import { onPm } from "../lib/stream";
import { Fault, IconButton, Loading, Prose, refusing } from "../part/basics";
import { Icon } from "../part/icon";
import { canWrite, type Crew } from "./board";
import { Verdict } from "./board-needs";
import { EditTask } from "./task-edit";
import { Around, Audit, Handoffs, Holds } from "./task-story";

interface Props {
  id: string;
  crew: Crew;
  project: Project;
  onMove: (task: TaskRow, to: Status) => void;
  onChange: () => void;
  onClose: () => void;
}

export function TaskPanel({ id, crew, project, onMove, onChange, onClose }: Props) {
  const [detail, setDetail] = useState<Whole | null>(null);
  const [fault, setFault] = useState<unknown>(null);
  const load = () => Promise.all([loadTask(id), look<Story>("get_story", { task_id: id })]).then(([told, story]) => { setDetail({ ...told, story }); setFault(null); }, setFault);
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
      {fault !== null ? <><IconButton icon="close" label={t("close")} onClick={onClose} /><Fault error={fault} /></> : detail === null ? <Loading /> : <Loaded detail={detail} crew={crew} project={project} onMove={onMove} onChange={() => { void load(); onChange(); }} onClose={onClose} />}
    </aside>
  );
}

/** A task with its whole story. */
export type Whole = TaskDetail & { story: Story };

/** Copies the prompt with which an agent begins this task. */
function CopyPrompt({ task }: { task: Task }) {
  const copy = async () => {
    try {
      await navigator.clipboard.writeText(await taskPrompt(task.ref));
      toast("good", t("task.prompt.done", { ref: task.ref }));
    } catch (error) {
      if (error instanceof DOMException) toast("bad", t("copy.refused"), t("copy.refused.hint"));
      else toastError(error);
    }
  };
  return <button type="button" class="quiet" {...refusing(whyNotCall(), () => void copy())}><Icon name="copy" />{t("task.prompt")}</button>;
}

function Loaded({ detail, crew, project, onMove, onChange, onClose }: { detail: Whole; crew: Crew; project: Project; onMove: Props["onMove"]; onChange: () => void; onClose: () => void }) {
  const { task, story } = detail;
  const [isEditing, setEditing] = useState(false);
  return (
    <>
      <div class="dialog-head"><p class="mono sub">{task.ref}</p><span class="grow" /><CopyPrompt task={task} />{!isEditing && <button type="button" {...refusing(whyNotWrite(), () => setEditing(true))}>{t("task.edit")}</button>}<IconButton icon="close" label={t("close")} onClick={onClose} /></div>
      {isEditing ? <EditTask task={task} onClose={() => setEditing(false)} onDone={() => { setEditing(false); onChange(); }} /> : (
        <>
          <h2 class="task-title">{task.title}</h2>
          <Controls task={task} crew={crew} onMove={onMove} onChange={onChange} />
          {task.blocked_reason && <p class="notice bad">{task.blocked_reason}</p>}
          {task.status === "review" && <div class="notice busy"><p><b>{t("task.result")}</b> {task.result?.summary}</p><span class="verdict"><Verdict task={task} onChange={onChange} /></span></div>}
          {task.description && <Prose text={task.description} most={1200} />}
          <Acceptance task={task} onChange={onChange} />
        </>
      )}
      {task.status !== "review" && task.result && <section><h3>{t("task.result")}</h3><Prose text={task.result.summary} /></section>}
      <Notes task={task} contexts={detail.contexts ?? []} crew={crew} onChange={onChange} />
      <Handoffs handoffs={story.handoffs} crew={crew} />
      <Holds holds={story.holds} checkpoint={detail.checkpoint} crew={crew} />
      <Prerequisites detail={detail} onChange={onChange} />
      <Links title={t("task.unblocks")} tasks={detail.dependents ?? []} />
      <Around task={task} graph={story.graph} />
      <Audit task={task} project={project} crew={crew} />
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
      <label><span>{t("board.assignee")}</span><select disabled={isFixed} value={task.assignee_id ?? ""} onChange={(event) => set("assignee_id", event.currentTarget.value)}><option value="">{t("board.nobody")}</option>{task.assignee_id && !crew.agents.some((agent) => agent.id === task.assignee_id) && <option value={task.assignee_id}>{task.assignee_id}</option>}{crew.agents.map((agent) => <option key={agent.id} value={agent.id}>{crew.name(agent.id)}</option>)}</select></label>
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
