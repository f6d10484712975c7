/** Who is at work: a row for each live session, with what it holds and how long its leases still run. */

import { useState } from "preact/hooks";
import { ago, minute, moment } from "../lib/format";
import { t, word } from "../lib/i18n";
import { type BoardView, change, type Hold, leaseLeft, leaseTone, type Member, order, type Project } from "../lib/pm";
import { whyNotWrite } from "../lib/rights";
import { to } from "../lib/route";
import { now, toast, toastError } from "../lib/store";
import { IconButton, Prose, refusing } from "../part/basics";
import type { Crew } from "./board";
import { Ask } from "./board-dialogs";

/** Sessions that are shown before somebody asks for the rest. */
const FIRST = 12;

/** What the person is being asked for. */
type Asking = { what: "revoke"; hold: Hold } | { what: "message"; member: Member } | { what: "pause" };

export function AgentsNow({ project, status, crew, onChange }: { project: Project; status: BoardView["project_status"]; crew: Crew; onChange: () => void }) {
  const [asking, setAsking] = useState<Asking | null>(null);
  const [isWhole, setWhole] = useState(false);
  const act = async (doing: Promise<unknown>, done: string) => {
    setAsking(null);
    await doing.then(() => toast("good", done), toastError);
    onChange();
  };
  const setStatus = (next: "active" | "paused", reason: string) => act(order("update_project", { project_id: project.id, status: next, ...(reason ? { reason } : {}) }), t(next === "paused" ? "board.paused.done" : "board.resumed.done", { key: project.key }));
  const rows = withoutIdleRepeats(crew.members);
  const shown = isWhole ? rows : rows.slice(0, FIRST);
  return (
    <section class="agents" aria-labelledby="agents-now">
      <div class="agents-head">
        <h2 id="agents-now">{t("board.sessions")} {crew.members.length > 0 && <span class="count">{crew.members.length}</span>}</h2>
        {status === "active" && <button type="button" class="quiet" {...refusing(whyNotWrite(), () => setAsking({ what: "pause" }))}>{t("board.pause")}</button>}
      </div>
      {status === "paused" && <p class="notice warn">{t("board.paused", { key: project.key })} <button type="button" class="link" {...refusing(whyNotWrite(), () => void setStatus("active", ""))}>{t("board.resume")}</button></p>}
      {status === "archived" && <p class="notice">{t("board.archived", { key: project.key })}</p>}
      {crew.members.length === 0 && <p class="note">{t("board.agents.none")}</p>}
      {shown.length > 0 && (
        <ul class="crew">{shown.map(({ member, idle }) => <Row key={member.session_id} member={member} idle={idle} crew={crew} onRevoke={(hold) => setAsking({ what: "revoke", hold })} onMessage={() => setAsking({ what: "message", member })} />)}</ul>
      )}
      {rows.length > FIRST && <button type="button" class="link" aria-expanded={isWhole} onClick={() => setWhole(!isWhole)}>{isWhole ? t("less") : t("tree.more", { n: rows.length - FIRST })}</button>}
      {asking?.what === "revoke" && <Ask title={t("board.revoke", { ref: asking.hold.ref })} label={t("board.reason")} onClose={() => setAsking(null)} onGive={(reason) => act(change("update_task_status", { task_id: asking.hold.task_id, status: "todo", reason, expected_version: asking.hold.version }), t("board.revoked"))} />}
      {asking?.what === "message" && <Ask title={t("board.message", { who: crew.name(asking.member.agent_id) })} label={t("board.message.what")} onClose={() => setAsking(null)} onGive={(text) => act(send(project, asking.member, text), t("board.message.done"))} />}
      {asking?.what === "pause" && <Ask title={t("board.pause.title", { key: project.key })} label={t("board.reason")} onClose={() => setAsking(null)} onGive={(reason) => setStatus("paused", reason)} />}
    </section>
  );
}

/** The agent hears it with its next call; it is kept on the task that it holds, or on the project. */
function send(project: Project, member: Member, text: string): Promise<unknown> {
  const task = member.holds[0]?.task_id;
  return order("send_message", { project_id: project.id, agent_id: member.agent_id, ...(task ? { task_id: task } : {}), text, idempotency_key: crypto.randomUUID() });
}

/** The sessions as rows. Further sessions of an agent that hold nothing only add to the count of its first row. */
function withoutIdleRepeats(members: Member[]): { member: Member; idle: number }[] {
  const rows: { member: Member; idle: number }[] = [];
  const first = new Map<string, { member: Member; idle: number }>();
  // Sessions with tasks come first, so that an idle one never hides them.
  for (const member of [...members].sort((a, b) => Number(b.holds.length > 0) - Number(a.holds.length > 0))) {
    const known = first.get(member.agent_id);
    if (known !== undefined && member.holds.length === 0) { known.idle += 1; continue; }
    const row = { member, idle: 0 };
    rows.push(row);
    if (known === undefined) first.set(member.agent_id, row);
  }
  return rows;
}

function Row({ member, idle, crew, onRevoke, onMessage }: { member: Member; idle: number; crew: Crew; onRevoke: (hold: Hold) => void; onMessage: () => void }) {
  const at = now.value;
  const name = crew.name(member.agent_id);
  const client = [member.client_name, member.client_version].filter(Boolean).join(" ");
  return (
    <li class="member">
      <div class="who-works">
        <span class={`state ${member.state === "active" ? "good" : "warn"}`}><span class="dot" aria-hidden="true" /><b>{name}</b></span>
        {member.state !== "active" && <span class="chip warn">{word("session", member.state)}</span>}
        <p class="sub">{[client, member.project].filter(Boolean).join(" · ")}</p>
      </div>
      <div class="when-works sub">
        <p title={moment(member.started_at)}>{t("board.started", { when: ago(member.started_at, at) })}</p>
        <p title={moment(member.last_activity_at)}>{t("board.heard", { when: ago(member.last_activity_at, at) })}</p>
      </div>
      <div class="holds">
        {member.holds.length === 0 && <p class="sub">{t("board.idle")}</p>}
        {member.holds.map((hold) => <Held key={hold.id} hold={hold} onRevoke={() => onRevoke(hold)} />)}
        {idle > 0 && <p class="sub">{t("board.sessions.idle", { n: idle })}</p>}
      </div>
      {member.agent_id !== crew.me && <button type="button" class="quiet" {...refusing(whyNotWrite(), onMessage)}>{t("board.message.button")}<span class="hidden"> {name}</span></button>}
    </li>
  );
}

function Held({ hold, onRevoke }: { hold: Hold; onRevoke: () => void }) {
  return (
    <div class="held">
      <div class="held-head">
        <a href={to("board", hold.ref)}><span class="mono">{hold.ref}</span> {hold.title}</a>
        <span class="sub">{t("board.since", { time: minute(hold.acquired_at) })}</span>
        <Lease hold={hold} />
        <IconButton icon="close" label={t("board.revoke", { ref: hold.ref })} why={whyNotWrite()} onClick={onRevoke} />
      </div>
      {hold.checkpoint && <div class="checkpoint"><Prose text={hold.checkpoint} most={160} /></div>}
    </div>
  );
}

/** How much of a lease is left: a bar that says it in words too. */
export function Lease({ hold }: { hold: Pick<Hold, "renewed_at" | "expires_at"> }) {
  const at = now.value;
  const tone = leaseTone(hold, at);
  const left = Math.round(leaseLeft(hold, at) * 100);
  const label = tone === "gone" ? t("board.lease.gone") : t("board.lease", { when: minute(hold.expires_at) });
  return <span class={`lease ${tone}`} role="meter" aria-label={label} aria-valuemin={0} aria-valuemax={100} aria-valuenow={left} title={label}><span style={{ width: `${tone === "gone" ? 100 : left}%` }} /></span>;
}
