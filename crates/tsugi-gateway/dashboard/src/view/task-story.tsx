/** A task's story: who handed it to whom, who held it under which fence, what stands around it, and every change. */

import { ago, moment, span } from "../lib/format";
import { places } from "../lib/graph";
import { t, word } from "../lib/i18n";
import type { Handoff, PastHold, Project, Story, Task } from "../lib/pm";
import { to } from "../lib/route";
import { now } from "../lib/store";
import { Fault, Loading, Prose } from "../part/basics";
import type { Crew } from "./board";
import { Events, useTimeline } from "./board-timeline";

/** The chain of handoffs, oldest first. */
export function Handoffs({ handoffs, crew }: { handoffs: Handoff[]; crew: Crew }) {
  if (handoffs.length === 0) return null;
  return (
    <section>
      <h3>{t("task.handoffs")}</h3>
      <ol class="chain">
        {handoffs.map((one) => (
          <li key={one.id} class="handoff">
            <p><b>{crew.name(one.from_agent_id)} → {one.accepted_by ? crew.name(one.accepted_by) : one.to_agent_id ? crew.name(one.to_agent_id) : t("task.anybody")}</b> <span class={`chip ${one.status === "pending" ? "warn" : "plain"}`}>{word("handoff", one.status)}</span>{one.kind === "auto" && <span class="chip">{t("task.handoff.auto")}</span>} <span class="sub" title={moment(one.created_at)}>{ago(one.created_at, now.value)}</span></p>
            <Prose text={one.summary} most={400} />
            {one.next_steps.length > 0 && <ol class="steps">{one.next_steps.map((step, at) => <li key={at}>{step}</li>)}</ol>}
            {one.warnings.map((warning, at) => <p key={at} class="warn-text">{warning}</p>)}
            {one.reason && <p class="reason-text">“{one.reason}”</p>}
          </li>
        ))}
      </ol>
    </section>
  );
}

const TONES: Record<string, string> = { live: "good", completed: "plain", released: "plain", transferred: "plain", expired: "bad", revoked: "bad" };

/** Everybody who held it, newest first, each under a fence of its own. */
export function Holds({ holds, checkpoint, crew }: { holds: PastHold[]; checkpoint: string | undefined; crew: Crew }) {
  if (holds.length === 0) return null;
  return (
    <section>
      <h3>{t("task.holds")}</h3>
      {checkpoint && <div class="checkpoint"><Prose text={checkpoint} /></div>}
      <div class="table-box" tabIndex={0} role="region" aria-label={t("task.holds")}>
        <table class="holds-table">
          <thead><tr><th scope="col" class="num">{t("task.fence")}</th><th scope="col">{t("board.who")}</th><th scope="col">{t("task.from")}</th><th scope="col">{t("task.for")}</th><th scope="col">{t("task.end")}</th></tr></thead>
          <tbody>
            {holds.map((one) => (
              <tr key={one.id}>
                <td class="num mono">{one.fence}</td>
                <td>{crew.name(one.agent_id)}</td>
                <td title={moment(one.acquired_at)}>{ago(one.acquired_at, now.value)}</td>
                <td>{span((one.ended_at ?? now.value) - one.acquired_at)}</td>
                <td class="wrap"><span class={`chip ${TONES[one.state] ?? "plain"}`}>{word("claim", one.state)}</span> {one.end_reason && <span class="sub">{one.end_reason}</span>}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </section>
  );
}

const [WIDTH, HEIGHT, GAP, STEP] = [104, 28, 44, 38];
/** Rows that are drawn of one column. */
const MOST_ROWS = 8;

/** The tasks around it, as a drawing of links. The lists above say the same in words. */
export function Around({ task, graph }: { task: Task; graph: Story["graph"] }) {
  const found = places(task.id, graph.edges).filter((one) => one.row < MOST_ROWS);
  if (found.length < 2) return null;
  const left = Math.min(...found.map((one) => one.depth));
  const columns = Math.max(...found.map((one) => one.depth)) - left + 1;
  const rows = Math.max(...found.map((one) => one.row)) + 1;
  const x = (depth: number) => (depth - left) * (WIDTH + GAP) + 2;
  const y = (row: number) => row * STEP + 2;
  const at = new Map(found.map((one) => [one.id, one]));
  const known = new Map(graph.tasks.map((one) => [one.id, one]));
  const [width, height] = [columns * (WIDTH + GAP) - GAP + 4, rows * STEP - (STEP - HEIGHT) + 4];
  return (
    <section>
      <h3>{t("task.around")}</h3>
      <div class="graph-box" tabIndex={0} role="region" aria-label={t("task.around")}>
        <svg class="graph" width={width} height={height} viewBox={`0 0 ${width} ${height}`} role="group" aria-label={t("task.around")}>
          {graph.edges.map(([waits, on]) => {
            const [from, end] = [at.get(on), at.get(waits)];
            if (from === undefined || end === undefined) return null;
            const [x1, y1, x2, y2] = [x(from.depth) + WIDTH, y(from.row) + HEIGHT / 2, x(end.depth), y(end.row) + HEIGHT / 2];
            return <path key={`${waits} ${on}`} class="edge" d={`M${x1} ${y1}C${x1 + GAP / 2} ${y1} ${x2 - GAP / 2} ${y2} ${x2} ${y2}`} />;
          })}
          {found.map((one) => {
            const card = known.get(one.id);
            if (card === undefined) return null;
            return (
              <a key={one.id} href={to("board", card.ref)} class={`node ${card.status} ${one.id === task.id ? "center" : ""}`} aria-label={`${card.ref} ${card.title}, ${t(`status.${card.status}`)}`}>
                <title>{`${card.ref} ${card.title} · ${t(`status.${card.status}`)}`}</title>
                <rect x={x(one.depth)} y={y(one.row)} width={WIDTH} height={HEIGHT} rx={6} />
                <text x={x(one.depth) + WIDTH / 2} y={y(one.row) + HEIGHT / 2 + 4} text-anchor="middle">{card.status === "done" ? "✓ " : card.status === "cancelled" ? "✕ " : ""}{card.ref}</text>
              </a>
            );
          })}
        </svg>
      </div>
    </section>
  );
}

/** Every change, with what was there before. */
export function Audit({ task, project, crew }: { task: Task; project: Project; crew: Crew }) {
  const { told, fault, more } = useTimeline(project, { task_id: task.ref }, true);
  return (
    <section class="audit">
      <h3>{t("task.history")}</h3>
      {fault !== null ? <Fault error={fault} /> : told === null ? <Loading /> : <Events events={told.events} tasks={{}} crew={crew} isFull />}
      {told?.has_more && <button type="button" class="link" onClick={more}>{t("calls.more")}</button>}
    </section>
  );
}
