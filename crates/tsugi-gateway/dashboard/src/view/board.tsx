/** The board: what the agents do, and what they need a person for. */

import { useEffect, useRef, useState } from "preact/hooks";
import { type BoardFilter, boardArguments, boardFilterOf, boardQuery } from "../lib/board-filter";
import { t } from "../lib/i18n";
import { type Agent, allowedMoves, type BoardView, Conflict, look, type Member, moveNeeds, moveTask, type Need, pm, type Project, type Status, type Task, type TaskRow } from "../lib/pm";
import { whyNotWrite } from "../lib/rights";
import { go, replaceQuery, route, to } from "../lib/route";
import { link, toast, toastError } from "../lib/store";
import { onPm } from "../lib/stream";
import { Empty, Fault, Loading, Panel, refusing, Tabs } from "../part/basics";
import { Icon } from "../part/icon";
import { Columns } from "./board-columns";
import { NewProject, NewTask, Words } from "./board-dialogs";
import { Health } from "./board-health";
import { Strip } from "./board-strip";
import { Timeline } from "./board-timeline";
import { TaskPanel } from "./task";

/** Who is who, and who is at work. */
export interface Crew {
  agents: Agent[];
  members: Member[];
  me: string | null;
  name: (id: string | null | undefined) => string;
}

export function Board({ selected }: { selected: string | undefined }) {
  const [projects, setProjects] = useState<Project[] | null>(null);
  const [fault, setFault] = useState<unknown>(null);
  const [isNew, setNew] = useState(false);
  const load = () => pm<{ projects: Project[] }>("list_projects", {}).then((told) => { setProjects(told.projects); setFault(null); }, setFault);
  useEffect(() => { void load(); return onPm((event) => { if (event.entity === "project") void load(); }); }, []);
  const asked = route.value.query.get("project");
  const project = projects?.find((one) => one.key === asked) ?? projects?.find((one) => selected?.startsWith(`${one.key}-`)) ?? projects?.find((one) => one.status === "active") ?? projects?.[0];
  return (
    <>
      <div class="head">
        <h1>{t("nav.board")}</h1>
        {projects !== null && projects.length > 0 && <label class="inline"><span class="hidden">{t("board.project")}</span><select value={project?.key} onChange={(event) => go(`${to("board")}?project=${encodeURIComponent(event.currentTarget.value)}`)}>{projects.map((one) => <option key={one.id} value={one.key}>{one.key} · {one.name}</option>)}</select></label>}
        <span class="grow" />
        <button type="button" {...refusing(whyNotWrite(), () => setNew(true))}>{t("board.newProject")}</button>
      </div>
      {fault !== null ? <Fault error={fault} again={load} /> : projects === null ? <Loading /> : project === undefined ? <Empty title={t("board.none")}><p>{t("board.none.note")}</p></Empty> : <ProjectBoard key={project.id} project={project} selected={selected} />}
      {isNew && <NewProject onClose={() => setNew(false)} onDone={(key) => { setNew(false); void load().then(() => go(`${to("board")}?project=${key}`)); }} />}
    </>
  );
}

export function canWrite(): boolean {
  return whyNotWrite() === null;
}

const TABS = ["columns", "timeline", "health"] as const;
type Tab = (typeof TABS)[number];

/** What the board is made of, as it was last told. */
interface Told {
  board: BoardView;
  needs: { needs: Need[]; total: number };
  crew: Crew;
}

export type Move = (task: TaskRow, to: Status) => void;

function ProjectBoard({ project, selected }: { project: Project; selected: string | undefined }) {
  const [told, setTold] = useState<Told | null>(null);
  const [fault, setFault] = useState<unknown>(null);
  const [cards, setCards] = useState<Partial<Record<Status, number>>>({});
  const [isNew, setNew] = useState(false);
  const [asking, setAsking] = useState<{ task: TaskRow; to: Status } | null>(null);
  const [lost, setLost] = useState<Lost | null>(null);
  const { query } = route.value;
  const tab: Tab = TABS.find((one) => one === query.get("tab")) ?? "columns";
  const filter = boardFilterOf(query);
  const load = useLoader(project, filter, cards, setTold, setFault);

  const move = async (task: TaskRow, to: Status, text: string) => {
    try {
      await moveTask(task, to, text);
      toast("good", t("board.moved", { ref: task.ref, status: t(`status.${to}`) }));
    } catch (error) {
      if (error instanceof Conflict) setLost({ task, to, text, current: error.current });
      else sayRefusal(error, task, to);
    }
    load();
  };
  const want: Move = (task, to) => {
    if (task.status === to) return;
    if (moveNeeds(task.status, to) === null) void move(task, to, "");
    else setAsking({ task, to });
  };
  const show = (next: { tab?: Tab; filter?: BoardFilter }) => replaceQuery(boardQuery(project.key, next.tab ?? tab, next.filter ?? filter));
  if (told === null) return fault !== null ? <Fault error={fault} again={load} /> : <Loading />;
  const { board, needs, crew } = told;
  const total = board.columns.reduce((sum, column) => sum + column.total, 0);
  return (
    <>
      <div role="alert">{lost !== null && <LostMove lost={lost} crew={crew} onLeave={() => setLost(null)} onAgain={() => { setLost(null); void move({ ...lost.task, status: lost.current.status, version: lost.current.version }, lost.to, lost.text); }} />}</div>
      {fault !== null && <Fault error={fault} again={load} />}
      <div class="board-bar">
        <Tabs label={t("nav.board")} tabs={[{ id: "columns", name: t("board.tasks"), count: total }, { id: "timeline", name: t("board.timeline") }, { id: "health", name: t("board.health") }]} value={tab} onChange={(id) => show({ tab: id })} />
        <button type="button" class="primary" data-key="n" {...refusing(whyNotWrite(), () => setNew(true))}><Icon name="plus" />{t("board.newTask")}</button>
      </div>
      {tab === "columns" && <Strip project={project} status={board.project_status} needs={needs} crew={crew} onMove={want} onChange={load} />}
      <Panel id={tab}>
        {tab === "columns" && <Columns board={board} crew={crew} selected={selected} filter={filter} onFilter={(next) => show({ filter: next })} onMore={(status, count) => setCards({ ...cards, [status]: count })} onMove={want} />}
        {tab === "timeline" && <Timeline project={project} crew={crew} />}
        {tab === "health" && <Health />}
      </Panel>
      {selected !== undefined && <TaskPanel id={selected} crew={crew} project={project} onMove={want} onChange={load} onClose={() => go(`${to("board")}?${query.has("project") ? query : `project=${project.key}`}`)} />}
      {isNew && <NewTask project={project} crew={crew} onClose={() => setNew(false)} onDone={(task) => { setNew(false); toast("good", t("board.created", { ref: task.ref })); load(); }} />}
      {asking !== null && <Words task={asking.task} to={asking.to} onClose={() => setAsking(null)} onGive={(text) => { setAsking(null); void move(asking.task, asking.to, text); }} />}
    </>
  );
}

/** A refused move in the reader's words: the rule, and what could be done instead. */
function sayRefusal(error: unknown, task: TaskRow, to: Status): void {
  const allowed = allowedMoves(error);
  if (allowed === null) return toastError(error);
  const why = t("board.refused", { ref: task.ref, from: t(`status.${task.status}`), to: t(`status.${to}`) });
  toast("bad", why, allowed.length === 0 ? t("board.refused.none") : t("board.refused.allowed", { list: allowed.map((one) => t(`status.${one}`)).join(", ") }));
}

/** Loads what the board shows, again whenever `pm` says that something happened, at most a few times in a second. */
function useLoader(project: Project, filter: BoardFilter, cards: Partial<Record<Status, number>>, setTold: (told: Told) => void, setFault: (fault: unknown) => void): () => void {
  const timer = useRef<ReturnType<typeof setTimeout> | null>(null);
  const latest = useRef(0);
  const wish = JSON.stringify(boardArguments(project.id, filter, cards));
  const wanted = useRef(wish);
  wanted.current = wish;
  const loadNow = async () => {
    timer.current = null;
    const turn = ++latest.current;
    try {
      const told = await loadAll(project, wanted.current);
      if (turn !== latest.current) return;
      setTold(told);
      setFault(null);
    } catch (error) {
      if (turn === latest.current) setFault(error);
    }
  };
  const load = () => { timer.current ??= setTimeout(loadNow, 120); };
  const isLive = link.value !== "lost";
  useEffect(() => {
    void loadNow();
    const stop = onPm((event) => { if (event.project === null || event.project === project.id) load(); });
    return () => { stop(); if (timer.current !== null) clearTimeout(timer.current); timer.current = null; latest.current += 1; };
  }, [project.id, isLive]);
  const isFirst = useRef(true);
  useEffect(() => { if (isFirst.current) isFirst.current = false; else load(); }, [wish]);
  return load;
}

async function loadAll(project: Project, wish: string): Promise<Told> {
  const here = { project_id: project.id };
  const [board, needs, { members }, { agents }] = await Promise.all([
    look<BoardView>("get_board", JSON.parse(wish)),
    look<{ needs: Need[]; total: number }>("get_needs", here),
    // Only some may see sessions; the board works without.
    look<{ members: Member[] }>("get_crew", here).catch(() => ({ members: [] })),
    pm<{ agents: Agent[] }>("list_agents", { ...here, limit: 200 }),
  ]);
  const names = new Map(agents.map((agent) => [agent.id, agent.name]));
  const name = (id: string | null | undefined) => (id && id === board.me ? t("board.you") : id ? names.get(id) ?? id : "–");
  return { board, needs, crew: { agents, members, me: board.me, name } };
}

interface Lost {
  task: TaskRow;
  to: Status;
  text: string;
  current: Task;
}

/** A move that came too late: what is true now, and what can be done. Nothing is overwritten without being asked. */
function LostMove({ lost, crew, onLeave, onAgain }: { lost: Lost; crew: Crew; onLeave: () => void; onAgain: () => void }) {
  const { current } = lost;
  return (
    <div class="conflict">
      <p><b>{t("board.conflict", { ref: lost.task.ref })}</b> {t("board.conflict.now", { status: t(`status.${current.status}`), who: crew.name(current.assignee_id) })} {t("board.conflict.yours", { status: t(`status.${lost.to}`) })}</p>
      <div class="actions">
        <button type="button" class="primary" onClick={onLeave}>{t("board.conflict.leave")}</button>
        {current.status !== lost.to && <button type="button" onClick={onAgain}>{t("board.conflict.again")}</button>}
        <a href={to("board", lost.task.ref)}>{t("board.conflict.look")}</a>
      </div>
    </div>
  );
}
