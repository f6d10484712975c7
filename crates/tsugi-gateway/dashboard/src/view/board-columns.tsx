/** Tasks by status. Cards are dragged, or moved with Shift and the arrow keys. */

import { useState } from "preact/hooks";
import { ago, minute, span } from "../lib/format";
import { t } from "../lib/i18n";
import { columnOrder, isStale, leaseLeft, type Project, type Status, type TaskRow } from "../lib/pm";
import { to } from "../lib/route";
import { now } from "../lib/store";
import type { Crew } from "./board";
import { canWrite } from "./board";

const COLUMNS: Status[] = ["backlog", "todo", "in_progress", "review", "blocked", "done"];
/** Cards in a column; more are one press away. */
const PIECE = 40;

interface Props {
  tasks: TaskRow[];
  crew: Crew;
  selected: string | undefined;
  project: Project;
  onMove: (task: TaskRow, to: Status) => void;
}

export function Columns(props: Props) {
  const [text, setText] = useState("");
  const [who, setWho] = useState("");
  const [isReadyOnly, setReadyOnly] = useState(false);
  const fits = (task: TaskRow) => `${task.ref} ${task.title}`.toLowerCase().includes(text.toLowerCase()) && (who === "" || task.assignee_id === who) && (!isReadyOnly || task.status !== "todo" || task.ready);
  const shown = props.tasks.filter(fits);
  return (
    <>
      <form class="filter" role="search" aria-label={t("board.filter")} onSubmit={(event) => event.preventDefault()}>
        <label><span>{t("board.text")}</span><input type="search" value={text} onInput={(event) => setText(event.currentTarget.value)} /></label>
        <label><span>{t("board.assignee")}</span><select value={who} onChange={(event) => setWho(event.currentTarget.value)}><option value="">{t("all")}</option>{props.crew.agents.map((agent) => <option key={agent.id} value={agent.id}>{props.crew.name(agent.id)}</option>)}</select></label>
        <label class="check"><input type="checkbox" checked={isReadyOnly} onChange={(event) => setReadyOnly(event.currentTarget.checked)} />{t("board.readyOnly")}</label>
      </form>
      <div class="board">{COLUMNS.map((status) => <Column key={status} status={status} {...props} tasks={shown.filter((task) => task.status === status)} />)}</div>
    </>
  );
}

function Column({ status, tasks, crew, selected, project, onMove }: Props & { status: Status }) {
  const [isOver, setOver] = useState(false);
  const [shown, setShown] = useState(PIECE);
  const sorted = [...tasks].sort(status === "done" ? (one, other) => other.updated_at - one.updated_at : columnOrder);
  const drop = (event: DragEvent) => {
    event.preventDefault();
    setOver(false);
    const dragged = read(event);
    if (dragged !== null) onMove(dragged, status);
  };
  return (
    <section class={`column ${status} ${isOver ? "over" : ""}`} aria-labelledby={`column-${status}`} data-status={status} onDragOver={(event) => { event.preventDefault(); setOver(true); }} onDragLeave={() => setOver(false)} onDrop={drop}>
      <h2 id={`column-${status}`}>{t(`status.${status}`)} <span class="count">{tasks.length}</span></h2>
      <ul>{sorted.slice(0, shown).map((task) => <Card key={task.id} task={task} crew={crew} isSelected={selected === task.ref} project={project} onMove={onMove} />)}</ul>
      {sorted.length > shown && <button type="button" class="link" onClick={() => setShown(shown + PIECE)}>{t("tree.more", { n: sorted.length - shown })}</button>}
      {sorted.length === 0 && <p class="column-empty">{t(`board.empty.${status as "todo"}`)}</p>}
    </section>
  );
}

/** What a drag carries: the row as it was seen, so that the version is the one that the person looked at. */
const KIND = "application/x-tsugi-task";

function read(event: DragEvent): TaskRow | null {
  try {
    return JSON.parse(event.dataTransfer?.getData(KIND) ?? "") as TaskRow;
  } catch {
    return null;
  }
}

function Card({ task, crew, isSelected, project, onMove }: { task: TaskRow; crew: Crew; isSelected: boolean; project: Project; onMove: Props["onMove"] }) {
  const at = now.value;
  const claim = crew.sessions.flatMap((one) => one.claims).find((one) => one.task_id === task.id);
  const isOld = isStale(task, at) || (claim !== undefined && leaseLeft(claim, at) < 0.25);
  const key = (event: KeyboardEvent) => {
    const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (step === undefined || !event.shiftKey || !canWrite()) return;
    event.preventDefault();
    const next = COLUMNS[COLUMNS.indexOf(task.status) + step];
    if (next !== undefined) onMove(task, next);
  };
  const isWaiting = task.status === "todo" && !task.ready;
  return (
    <li class={`card ${task.priority} ${isSelected ? "selected" : ""} ${isWaiting ? "waiting" : ""} ${isOld ? "stale" : ""}`} draggable={canWrite()} onDragStart={(event) => { event.dataTransfer?.setData(KIND, JSON.stringify(task)); if (event.dataTransfer) event.dataTransfer.effectAllowed = "move"; }}>
      <a data-row href={`${to("board", task.ref)}?project=${project.key}`} aria-keyshortcuts="Shift+ArrowLeft Shift+ArrowRight" onKeyDown={key}><span class="ref mono">{task.ref}</span> <span class="card-title">{task.title}</span></a>
      <p class="card-foot">
        {(task.priority === "critical" || task.priority === "high") && <span class={`priority ${task.priority}`}>{t(`priority.${task.priority}`)}</span>}
        {isWaiting && <span>{task.waits_for ? t("board.waits", { n: task.waits_for }) : t("board.notReady")}</span>}
        {task.status === "in_progress" && <span>{crew.name(task.assignee_id)} · {claim ? t("board.since", { time: minute(claim.acquired_at) }) : ago(task.updated_at, at)}</span>}
        {task.status !== "in_progress" && task.assignee_id && <span>{crew.name(task.assignee_id)}</span>}
        {isOld && <span class="stale-word">{t("board.stale", { span: span(at - task.updated_at) })}</span>}
        {task.due_at !== undefined && task.status !== "done" && <span class={task.due_at < at ? "bad-text" : ""}>{t("board.due", { when: ago(task.due_at, at) })}</span>}
      </p>
    </li>
  );
}
