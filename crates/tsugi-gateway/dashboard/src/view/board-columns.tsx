/** Tasks by status. Cards are dragged, or moved with Shift and the arrow keys. */

import { useEffect, useRef, useState } from "preact/hooks";
import { type BoardFilter, isBoardFiltered, NO_BOARD_FILTER } from "../lib/board-filter";
import { ago, minute, number, span } from "../lib/format";
import { t } from "../lib/i18n";
import { type BoardView, type Card as CardRow, type Column as ColumnRow, isStale, leaseTone, PRIORITIES, type Priority, type Status } from "../lib/pm";
import { route, to } from "../lib/route";
import { now } from "../lib/store";
import { FilterForm } from "../part/basics";
import type { Crew, Move } from "./board";
import { canWrite } from "./board";

/** Cards that one press adds to a column. */
const PIECE = 40;
/** How long somebody may go on typing before the board follows. */
const TYPING = 250;

interface Props {
  board: BoardView;
  crew: Crew;
  selected: string | undefined;
  filter: BoardFilter;
  onFilter: (filter: BoardFilter) => void;
  onMore: (status: Status, count: number) => void;
  onMove: Move;
}

export function Columns({ board, crew, selected, filter, onFilter, onMore, onMove }: Props) {
  const order = board.columns.map((column) => column.status);
  return (
    <>
      <Filter board={board} crew={crew} filter={filter} onFilter={onFilter} />
      {isBoardFiltered(filter) && board.columns.every((column) => column.total === 0) && <p class="note" role="status">{t("board.noneFit")}</p>}
      <div class="board">{board.columns.map((column) => <Column key={column.status} column={column} order={order} days={board.done_days} crew={crew} selected={selected} onMore={onMore} onMove={onMove} />)}</div>
    </>
  );
}

function Filter({ board, crew, filter, onFilter }: { board: BoardView; crew: Crew; filter: BoardFilter; onFilter: (filter: BoardFilter) => void }) {
  const [text, setText] = useState(filter.text);
  const timer = useRef<ReturnType<typeof setTimeout> | null>(null);
  const latest = useRef(filter);
  latest.current = filter;
  const type = (next: string) => {
    setText(next);
    if (timer.current !== null) clearTimeout(timer.current);
    timer.current = setTimeout(() => onFilter({ ...latest.current, text: next }), TYPING);
  };
  useEffect(() => () => { if (timer.current !== null) clearTimeout(timer.current); }, []);
  const clear = () => { setText(""); onFilter(NO_BOARD_FILTER); };
  return (
    <FilterForm label={t("board.filter")} isActive={isBoardFiltered(filter)}>
      <label><span>{t("board.text")}</span><input type="search" value={text} onInput={(event) => type(event.currentTarget.value)} /></label>
      <label><span>{t("board.assignee")}</span><select value={filter.assignee} disabled={filter.isMine} onChange={(event) => onFilter({ ...filter, assignee: event.currentTarget.value })}><option value="">{t("all")}</option>{crew.agents.map((agent) => <option key={agent.id} value={agent.id}>{crew.name(agent.id)}</option>)}</select></label>
      <label><span>{t("board.label")}</span><select value={filter.label} onChange={(event) => onFilter({ ...filter, label: event.currentTarget.value })}><option value="">{t("all")}</option>{[...new Set([...board.labels, ...(filter.label ? [filter.label] : [])])].map((one) => <option key={one} value={one}>{one}</option>)}</select></label>
      <label><span>{t("task.priority")}</span><select value={filter.priority} onChange={(event) => onFilter({ ...filter, priority: event.currentTarget.value as Priority | "" })}><option value="">{t("all")}</option>{PRIORITIES.map((one) => <option key={one} value={one}>{t(`priority.${one}`)}</option>)}</select></label>
      {board.me !== null && <label class="check"><input type="checkbox" checked={filter.isMine} onChange={(event) => onFilter({ ...filter, isMine: event.currentTarget.checked })} />{t("board.mine")}</label>}
      <label class="check"><input type="checkbox" checked={filter.isReadyOnly} onChange={(event) => onFilter({ ...filter, isReadyOnly: event.currentTarget.checked })} />{t("board.readyOnly")}</label>
      {isBoardFiltered(filter) && <button type="button" class="link" onClick={clear}>{t("calls.clear")}</button>}
    </FilterForm>
  );
}

interface ColumnProps {
  column: ColumnRow;
  order: Status[];
  days: number;
  crew: Crew;
  selected: string | undefined;
  onMore: (status: Status, count: number) => void;
  onMove: Move;
}

function Column({ column, order, days, crew, selected, onMore, onMove }: ColumnProps) {
  const [isOver, setOver] = useState(false);
  const { status, cards, total } = column;
  const drop = (event: DragEvent) => {
    event.preventDefault();
    setOver(false);
    const dragged = read(event);
    if (dragged !== null) onMove(dragged, status);
  };
  return (
    <section class={`column ${status} ${isOver ? "over" : ""}`} aria-labelledby={`column-${status}`} data-status={status} onDragOver={(event) => { event.preventDefault(); setOver(true); }} onDragLeave={() => setOver(false)} onDrop={drop}>
      <h2 id={`column-${status}`}>{t(`status.${status}`)}{status === "done" && <span class="sub">{t("board.days", { n: days })}</span>} <span class="count">{number(total)}</span></h2>
      <ul>{cards.map((task) => <Card key={task.id} task={task} order={order} crew={crew} isSelected={selected === task.ref} onMove={onMove} />)}</ul>
      {total > cards.length && <button type="button" class="link" onClick={() => onMore(status, cards.length + PIECE)}>{t("tree.more", { n: number(total - cards.length) })}<span class="hidden"> {t(`status.${status}`)}</span></button>}
      {total === 0 && <p class="column-empty">{t(`board.empty.${status as "todo"}`)}</p>}
    </section>
  );
}

/** What a drag carries: the row as it was seen, so that the version is the one that the person looked at. */
const KIND = "application/x-tsugi-task";

function read(event: DragEvent): CardRow | null {
  try {
    return JSON.parse(event.dataTransfer?.getData(KIND) ?? "") as CardRow;
  } catch {
    return null;
  }
}

function Card({ task, order, crew, isSelected, onMove }: { task: CardRow; order: Status[]; crew: Crew; isSelected: boolean; onMove: Move }) {
  const at = now.value;
  const hold = crew.members.flatMap((one) => one.holds).find((one) => one.task_id === task.id);
  const isLow = hold !== undefined && leaseTone(hold, at) !== "good";
  const isOld = isLow || (isStale(task, at) && (hold === undefined || at - hold.renewed_at > 3_600_000));
  const key = (event: KeyboardEvent) => {
    const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (step === undefined || !event.shiftKey || !canWrite()) return;
    event.preventDefault();
    const next = order[order.indexOf(task.status) + step];
    if (next !== undefined) onMove(task, next);
  };
  const isWaiting = task.status === "todo" && !task.ready;
  const query = route.value.query.toString();
  return (
    <li class={`card ${task.priority} ${isSelected ? "selected" : ""} ${isWaiting ? "waiting" : ""} ${isOld ? "stale" : ""}`} draggable={canWrite()} onDragStart={(event) => { event.dataTransfer?.setData(KIND, JSON.stringify(task)); if (event.dataTransfer) event.dataTransfer.effectAllowed = "move"; }}>
      <a data-row href={`${to("board", task.ref)}${query ? `?${query}` : ""}`} aria-keyshortcuts="Shift+ArrowLeft Shift+ArrowRight" onKeyDown={key}><span class="ref mono">{task.ref}</span> <span class="card-title">{task.title}</span></a>
      <p class="card-foot">
        {(task.priority === "critical" || task.priority === "high") && <span class={`priority ${task.priority}`}>{t(`priority.${task.priority}`)}</span>}
        {isWaiting && <span class="waits">{waits(task)}</span>}
        {task.status === "in_progress" && <span>{crew.name(task.assignee_id)} · {hold ? t("board.since", { time: minute(hold.acquired_at) }) : ago(task.updated_at, at)}</span>}
        {task.status !== "in_progress" && task.assignee_id && <span>{crew.name(task.assignee_id)}</span>}
        {isOld && <span class="stale-word">{hold && leaseTone(hold, at) === "gone" ? t("board.lease.gone") : t("board.stale", { span: span(at - (hold?.renewed_at ?? task.updated_at)) })}</span>}
        {task.due_at !== undefined && task.status !== "done" && <span class={task.due_at < at ? "bad-text" : ""}>{t("board.due", { when: ago(task.due_at, at) })}</span>}
        {task.labels?.map((label) => <span key={label} class="label">{label}</span>)}
      </p>
    </li>
  );
}

/** For what a task waits, by name. */
function waits(task: CardRow): string {
  const named = task.waiting_on ?? [];
  if (named.length === 0) return t("board.notReady");
  const rest = (task.waits_for ?? named.length) - named.length;
  return t("board.waits", { list: [...named.map((one) => one.ref), ...(rest > 0 ? [`+${rest}`] : [])].join(", ") });
}
