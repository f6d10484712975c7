/** What waits for a person, each with the answers that can be given at once. */

import type { ComponentChildren } from "preact";
import { useState } from "preact/hooks";
import { ago } from "../lib/format";
import { t } from "../lib/i18n";
import { countOf, see, unseen } from "../lib/needs";
import { type Card, change, type Need, type TaskRow } from "../lib/pm";
import { whyNotWrite } from "../lib/rights";
import { to } from "../lib/route";
import { now, toast, toastError } from "../lib/store";
import { refusing } from "../part/basics";
import type { Crew, Move } from "./board";
import { Ask } from "./board-dialogs";

/** How many are shown before somebody asks for the rest. */
const FIRST = 6;

interface Props {
  crew: Crew;
  onMove: Move;
  onChange: () => void;
}

export function NeedsYou({ needs, total, ...rest }: Props & { needs: Need[]; total: number }) {
  const [isWhole, setWhole] = useState(false);
  const open = unseen(needs);
  const count = countOf({ needs, total });
  const shown = isWhole ? open : open.slice(0, FIRST);
  return (
    <section class={`needs-you ${count === 0 ? "none" : ""}`} aria-labelledby="needs-you">
      <h2 id="needs-you" class="hidden">{t("board.needs")}</h2>
      {count === 0 && <p class="note">{t("board.needs.none")}</p>}
      <ul>{shown.map((need) => <Item key={keyOf(need)} need={need} {...rest} />)}</ul>
      {open.length > FIRST && <button type="button" class="link" aria-expanded={isWhole} onClick={() => setWhole(!isWhole)}>{isWhole ? t("less") : t("tree.more", { n: open.length - FIRST })}</button>}
    </section>
  );
}

function keyOf(need: Need): string {
  return need.kind === "expired" ? need.session_id : `${need.kind} ${need.task.id}`;
}

const TONES: Record<Need["kind"], string> = { review: "busy", blocked: "bad", handoff: "warn", cancelled: "bad", approval: "busy", expired: "warn" };

function Item({ need, crew, onMove, onChange }: Props & { need: Need }) {
  return (
    <li data-need={need.kind}>
      <span class={`chip ${TONES[need.kind]}`}>{t(`board.kind.${need.kind}`)}</span>
      <div class="need">{what(need, crew)}</div>
      <span class="verdict">{verdicts(need, crew, onMove, onChange)}</span>
    </li>
  );
}

function what(need: Need, crew: Crew): ComponentChildren {
  const at = now.value;
  switch (need.kind) {
    case "review": return <><TaskLink task={need.task} /> <span class="sub">{crew.name(need.task.assignee_id)} · {ago(need.task.updated_at, at)}</span>{need.task.result && <p class="reason-text">{need.task.result}</p>}</>;
    case "blocked": return <><TaskLink task={need.task} /> <span class="sub">{ago(need.task.updated_at, at)}</span><p class="reason-text">{need.task.blocked_reason ?? ""}</p></>;
    case "handoff": return <><TaskLink task={need.task} /> <span class="sub">{crew.name(need.from_agent_id)} → {need.to_agent_id ? crew.name(need.to_agent_id) : t("task.anybody")} · {ago(need.created_at, at)}</span><p class="reason-text">{need.summary}</p></>;
    case "cancelled": return <><TaskLink task={need.task} /><p class="reason-text">{t("board.cancelled.why", { list: need.prerequisites.map((one) => one.ref).join(", ") })}</p></>;
    case "approval": return <><TaskLink task={need.task} /> <span class="sub">{t("board.proposed", { who: crew.name(need.task.created_by) })} · {ago(need.task.updated_at, at)}</span></>;
    case "expired": return <><b>{crew.name(need.agent_id)}</b> <span class="sub">{[need.client_name, t("board.heard", { when: ago(need.last_activity_at, at) })].filter(Boolean).join(" · ")}</span><p class="reason-text">{need.tasks.length === 0 ? t("board.expired.idle") : t("board.expired.held")} {need.tasks.map((task) => <TaskLink key={task.id} task={task} />)}</p></>;
  }
}

/** Does something and says how it went. */
async function act(doing: Promise<unknown>, done: string, onChange: () => void): Promise<void> {
  await doing.then(() => toast("good", done), toastError);
  onChange();
}

function verdicts(need: Need, crew: Crew, onMove: Move, onChange: () => void): ComponentChildren {
  switch (need.kind) {
    case "review": return <Verdict task={need.task} onChange={onChange} />;
    case "blocked": return <><Button label={t("board.unblock")} of={need.task} onClick={() => onMove(need.task, "todo")} /><Button label={t("board.cancelIt")} of={need.task} isQuiet onClick={() => onMove(need.task, "cancelled")} /></>;
    case "approval": return <><Button label={t("board.accept")} of={need.task} onClick={() => onMove(need.task, "todo")} /><Button label={t("board.turnDown")} of={need.task} isQuiet onClick={() => onMove(need.task, "cancelled")} /></>;
    case "expired": return <button type="button" onClick={() => see(need.session_id)}>{t("board.seen")}<span class="hidden"> {crew.name(need.agent_id)}</span></button>;
    case "handoff": return <HandoffVerdict need={need} crew={crew} onChange={onChange} />;
    case "cancelled": return <><Button label={t("board.goOn")} of={need.task} onClick={() => act(change("update_dependencies", { task_id: need.task.id, remove: need.prerequisites.map((one) => one.id) }), t("board.goOn.done", { ref: need.task.ref }), onChange)} />{need.prerequisites.slice(0, 1).map((one) => <Button key={one.id} label={t("board.reopen", { ref: one.ref })} isQuiet onClick={() => act(change("update_task_status", { task_id: one.id, status: "backlog" }), t("board.moved", { ref: one.ref, status: t("status.backlog") }), onChange)} />)}</>;
  }
}

function HandoffVerdict({ need, crew, onChange }: { need: Extract<Need, { kind: "handoff" }>; crew: Crew; onChange: () => void }) {
  const ref = need.task.ref;
  const isMine = need.to_agent_id === null || need.to_agent_id === crew.me;
  const take = () => act(change("accept_handoff", { handoff_id: need.id }), t("board.taken", { ref }), onChange);
  const free = () => act(change("reject_handoff", { handoff_id: need.id, reason: t("board.freed.why") }), t("board.freed", { ref }), onChange);
  return <>{isMine && <Button label={t("board.take")} of={need.task} onClick={take} />}<Button label={need.to_agent_id === null ? t("board.dismiss") : t("board.free")} of={need.task} isQuiet={isMine} onClick={free} /></>;
}

function Button({ label, of, onClick, isQuiet = false }: { label: string; of?: TaskRow; onClick: () => void; isQuiet?: boolean }) {
  return <button type="button" class={isQuiet ? "quiet" : ""} {...refusing(whyNotWrite(), onClick)}>{label}{of && <span class="hidden"> {of.ref}</span>}</button>;
}

function TaskLink({ task }: { task: Card }) {
  return <a href={to("board", task.ref)}><span class="mono">{task.ref}</span> {task.title}</a>;
}

/** Approve, or say what must change. */
export function Verdict({ task, onChange }: { task: TaskRow; onChange: () => void }) {
  const [isAsking, setAsking] = useState(false);
  const give = (verdict: "approve" | "changes", notes: string) => {
    setAsking(false);
    const done = t(verdict === "approve" ? "board.approved" : "board.returned", { ref: task.ref });
    return act(change("review_task", { task_id: task.id, verdict, ...(notes === "" ? {} : { notes }) }), done, onChange);
  };
  return (
    <>
      <Button label={t("board.approve")} of={task} onClick={() => void give("approve", "")} />
      <Button label={t("board.changes")} of={task} isQuiet onClick={() => setAsking(true)} />
      {isAsking && <Ask title={`${t("board.changes")} · ${task.ref}`} label={t("board.changes.what")} onClose={() => setAsking(false)} onGive={(notes) => give("changes", notes)} />}
    </>
  );
}
