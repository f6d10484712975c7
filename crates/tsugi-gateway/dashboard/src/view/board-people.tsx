/** Who needs a person, and who is at work. */

import { useEffect, useState } from "preact/hooks";
import { ago, minute } from "../lib/format";
import { t } from "../lib/i18n";
import { change, type Handoff, leaseLeft, loadTask, pm, type Project, type TaskRow } from "../lib/pm";
import { whyNotCall, whyNotWrite } from "../lib/rights";
import { to } from "../lib/route";
import { now, toast, toastError } from "../lib/store";
import { IconButton, refusing } from "../part/basics";
import type { Crew } from "./board";
import { Ask } from "./board-dialogs";

export function NeedsYou({ project, tasks, crew, onChange }: { project: Project; tasks: TaskRow[]; crew: Crew; onChange: () => void }) {
  const reviews = tasks.filter((task) => task.status === "review");
  const blocked = tasks.filter((task) => task.status === "blocked");
  const handoffs = useHandoffs(project, tasks);
  const reasons = useReasons(blocked);
  const count = reviews.length + blocked.length + handoffs.length;
  return (
    <section class={`needs-you ${count === 0 ? "none" : ""}`} aria-labelledby="needs-you">
      <h2 id="needs-you">{t("board.needs")} {count > 0 && <span class="badge">{count}</span>}</h2>
      {count === 0 && <p class="note">{t("board.needs.none")}</p>}
      <ul>
        {reviews.map((task) => <li key={task.id}><Kind kind="review" /><TaskLink task={task} /><span class="sub">{crew.name(task.assignee_id)} · {ago(task.updated_at, now.value)}</span><Verdict task={task} onChange={onChange} /></li>)}
        {blocked.map((task) => <li key={task.id}><Kind kind="blocked" /><TaskLink task={task} /><span class="reason-text">{reasons[task.id] ?? ""}</span></li>)}
        {handoffs.map((handoff) => <li key={handoff.id}><Kind kind="handoff" /><a href={to("board", tasks.find((task) => task.id === handoff.task_id)?.ref ?? handoff.task_id)}>{tasks.find((task) => task.id === handoff.task_id)?.ref ?? handoff.task_id}</a><span class="reason-text">{handoff.summary.slice(0, 160)}</span><span class="sub">{crew.name(handoff.from_agent_id)} · {ago(handoff.created_at, now.value)}</span></li>)}
      </ul>
    </section>
  );
}

function Kind({ kind }: { kind: "review" | "blocked" | "handoff" }) {
  return <span class={`chip ${kind === "blocked" ? "bad" : kind === "review" ? "busy" : "warn"}`}>{t(`board.kind.${kind}`)}</span>;
}

function TaskLink({ task }: { task: TaskRow }) {
  return <a href={to("board", task.ref)}><span class="mono">{task.ref}</span> {task.title}</a>;
}

/** Approve, or say what must change. */
export function Verdict({ task, onChange }: { task: TaskRow; onChange: () => void }) {
  const [isAsking, setAsking] = useState(false);
  const why = whyNotWrite();
  const give = async (verdict: "approve" | "changes", notes: string) => {
    setAsking(false);
    try {
      await change("review_task", { task_id: task.id, verdict, ...(notes === "" ? {} : { notes }) });
      toast("good", t(verdict === "approve" ? "board.approved" : "board.returned", { ref: task.ref }));
    } catch (error) {
      toastError(error);
    }
    onChange();
  };
  return (
    <span class="verdict">
      <button type="button" {...refusing(why, () => void give("approve", ""))}>{t("board.approve")}<span class="hidden"> {task.ref}</span></button>
      <button type="button" class="quiet" {...refusing(why, () => setAsking(true))}>{t("board.changes")}<span class="hidden"> {task.ref}</span></button>
      {isAsking && <Ask title={`${t("board.changes")} · ${task.ref}`} label={t("board.changes.what")} onClose={() => setAsking(false)} onGive={(notes) => give("changes", notes)} />}
    </span>
  );
}

function useHandoffs(project: Project, tasks: TaskRow[]): Handoff[] {
  const [handoffs, setHandoffs] = useState<Handoff[]>([]);
  // Handoffs wait for an agent, and who may only look is none.
  useEffect(() => { if (whyNotCall() === null) pm<{ handoffs: Handoff[] }>("get_pending_handoffs", { project_id: project.id, include_open: true }).then((told) => setHandoffs(told.handoffs), () => setHandoffs([])); }, [tasks]);
  return handoffs;
}

/** Reasons stand in the tasks, not in their rows; few are blocked, so they are looked up one by one. */
function useReasons(blocked: TaskRow[]): Record<string, string> {
  const [reasons, setReasons] = useState<Record<string, string>>({});
  const key = blocked.map((task) => `${task.id}@${task.version}`).join(" ");
  useEffect(() => {
    let isGone = false;
    void (async () => {
      for (const task of blocked.slice(0, 20)) {
        const detail = await loadTask(task.id).catch(() => null);
        if (isGone) return;
        const reason = detail?.task.blocked_reason;
        if (reason) setReasons((old) => ({ ...old, [task.id]: reason }));
      }
    })();
    return () => { isGone = true; };
  }, [key]);
  return reasons;
}

export function AgentsNow({ tasks, crew, onChange }: { tasks: TaskRow[]; crew: Crew; onChange: () => void }) {
  const at = now.value;
  const known = new Set(crew.agents.map((agent) => agent.id));
  const live = crew.sessions.filter((one) => known.has(one.session.agent_id)).sort((one, other) => other.claims.length - one.claims.length || other.session.last_activity_at - one.session.last_activity_at);
  const [asked, setAsked] = useState<string | null>(null);
  const revoke = async (task: string, reason: string) => {
    setAsked(null);
    await change("update_task_status", { task_id: task, status: "todo", reason }).then(() => toast("good", t("board.revoked")), toastError);
    onChange();
  };
  return (
    <section class="agents" aria-labelledby="agents-now">
      <h2 id="agents-now">{t("board.agents")}</h2>
      {live.length === 0 && <p class="note">{t("board.agents.none")}</p>}
      <ul>
        {live.slice(0, 24).map(({ session, claims }) => (
          <li key={session.id}>
            <p><span class={`state ${session.state === "active" ? "good" : "warn"}`}><span class="dot" aria-hidden="true" /><b>{crew.name(session.agent_id)}</b></span> <span class="sub">{[session.client_name, t("board.heard", { when: ago(session.last_activity_at, at) })].filter(Boolean).join(" · ")}</span></p>
            {claims.length === 0 ? <p class="sub">{t("board.idle")}</p> : claims.map((claim) => {
              const task = tasks.find((one) => one.id === claim.task_id);
              const left = leaseLeft(claim, at);
              return (
                <p key={claim.id} class="held">
                  <a href={to("board", task?.ref ?? claim.task_id)}><span class="mono">{task?.ref ?? claim.task_id}</span> {task?.title}</a>
                  <span class="sub">{t("board.since", { time: minute(claim.acquired_at) })}</span>
                  <meter class={left === 0 ? "gone" : left < 0.25 ? "low" : ""} min={0} max={1} low={0.25} optimum={1} value={left} aria-label={t("board.lease", { when: minute(claim.expires_at) })} title={t("board.lease", { when: minute(claim.expires_at) })} />
                  <IconButton icon="close" label={t("board.revoke", { ref: task?.ref ?? "" })} why={whyNotWrite()} onClick={() => setAsked(claim.task_id)} />
                </p>
              );
            })}
          </li>
        ))}
      </ul>
      {asked !== null && <Ask title={t("board.revoke", { ref: tasks.find((task) => task.id === asked)?.ref ?? "" })} label={t("board.reason")} onClose={() => setAsked(null)} onGive={(reason) => revoke(asked, reason)} />}
    </section>
  );
}
