/** One line above the columns: what waits for a person and who is at work. Each half opens what it sums up. */

import { useState } from "preact/hooks";
import { t } from "../lib/i18n";
import { countOf } from "../lib/needs";
import type { BoardView, Member, Need, Project } from "../lib/pm";
import { remember, remembered } from "../lib/settings";
import type { Crew, Move } from "./board";
import { AgentsNow } from "./board-agents";
import { NeedsYou } from "./board-needs";

type Half = "needs" | "agents";

interface Props {
  project: Project;
  status: BoardView["project_status"];
  needs: { needs: Need[]; total: number };
  crew: Crew;
  onMove: Move;
  onChange: () => void;
}

/** Agents that the line names before it only counts them. */
const NAMED = 6;

export function Strip({ project, status, needs, crew, onMove, onChange }: Props) {
  const [open, setOpen] = useState<Half | null>(() => [...HALVES].find((half) => half === remembered("board.open")) ?? null);
  const toggle = (half: Half) => {
    const next = open === half ? null : half;
    setOpen(next);
    remember("board.open", next ?? "");
  };
  const count = countOf(needs);
  return (
    <>
      <div class="strip">
        <button type="button" class="strip-needs" aria-expanded={open === "needs"} onClick={() => toggle("needs")}>
          {t("board.needs")} {count > 0 ? <span class="badge">{count}</span> : <span class="sub">{t("board.needs.zero")}</span>}
        </button>
        <button type="button" class="strip-agents" aria-expanded={open === "agents"} onClick={() => toggle("agents")}>
          <span class="strip-label">{t("board.agents")}</span>
          {crew.members.length === 0 ? <span class="sub">{t("board.needs.zero")}</span> : <Chips members={crew.members} crew={crew} />}
        </button>
      </div>
      {status !== "active" && open !== "agents" && <p class={`notice ${status === "paused" ? "warn" : ""}`}>{t(status === "paused" ? "board.paused" : "board.archived", { key: project.key })}</p>}
      {open === "needs" && <NeedsYou needs={needs.needs} total={needs.total} crew={crew} onMove={onMove} onChange={onChange} />}
      {open === "agents" && <AgentsNow project={project} status={status} crew={crew} onChange={onChange} />}
    </>
  );
}

const HALVES: Half[] = ["needs", "agents"];

/** An agent with all its sessions, so that five idle ones take the room of one. */
function Chips({ members, crew }: { members: Member[]; crew: Crew }) {
  const agents = new Map<string, Member[]>();
  for (const member of members) agents.set(member.agent_id, [...(agents.get(member.agent_id) ?? []), member]);
  const shown = [...agents].slice(0, NAMED);
  return (
    <span class="strip-chips">
      {shown.map(([id, sessions]) => {
        const refs = sessions.flatMap((member) => member.holds.map((hold) => hold.ref));
        const isHere = sessions.some((member) => member.state === "active");
        return <span key={id} class={`state ${isHere ? "good" : "warn"}`}><span class="dot" aria-hidden="true" /><b>{crew.name(id)}</b> <span class="mono">{refs.join(" ")}</span></span>;
      })}
      {agents.size > NAMED && <span class="sub">+{agents.size - NAMED}</span>}
    </span>
  );
}
