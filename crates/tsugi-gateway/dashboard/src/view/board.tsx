/** The board: what the agents do, and what they need a person for. */

import { useEffect, useRef, useState } from "preact/hooks";
import { t } from "../lib/i18n";
import { type Agent, Conflict, type LiveSession, loadTasks, moveNeeds, moveTask, pm, type Project, type Status, type Task, type TaskRow } from "../lib/pm";
import { whyNotWrite } from "../lib/rights";
import { go, replaceQuery, route, to } from "../lib/route";
import { link, toast, toastError } from "../lib/store";
import { onPm } from "../lib/stream";
import { Empty, Fault, Loading, Panel, refusing, Tabs } from "../part/basics";
import { Icon } from "../part/icon";
import { AgentsNow, NeedsYou } from "./board-people";
import { Columns } from "./board-columns";
import { Timeline } from "./board-timeline";
import { NewProject, NewTask, Words } from "./board-dialogs";
import { TaskPanel } from "./task";

export interface Crew {
  agents: Agent[];
  sessions: LiveSession[];
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

type Tab = "columns" | "timeline";

function ProjectBoard({ project, selected }: { project: Project; selected: string | undefined }) {
  const [tasks, setTasks] = useState<TaskRow[] | null>(null);
  const [crew, setCrew] = useState<Crew>({ agents: [], sessions: [], name: (id) => id ?? "–" });
  const [fault, setFault] = useState<unknown>(null);
  const [isNew, setNew] = useState(false);
  const [asking, setAsking] = useState<{ task: TaskRow; to: Status } | null>(null);
  const [lost, setLost] = useState<Lost | null>(null);
  const tab: Tab = route.value.query.get("tab") === "timeline" ? "timeline" : "columns";
  const load = useLoader(project, setTasks, setCrew, setFault);

  const keep = (task: TaskRow) => setTasks((old) => (old === null ? old : old.map((one) => (one.id === task.id && one.version <= task.version ? { ...one, ...task } : one))));
  const move = async (task: TaskRow, to: Status, text: string) => {
    try {
      keep(await moveTask(task, to, text));
      toast("good", t("board.moved", { ref: task.ref, status: t(`status.${to}`) }));
    } catch (error) {
      if (error instanceof Conflict) {
        setLost({ task, to, text, current: error.current });
        keep(error.current);
      } else {
        toastError(error);
      }
    }
    load();
  };
  const want = (task: TaskRow, to: Status) => {
    if (task.status === to) return;
    if (moveNeeds(task.status, to) === null) void move(task, to, "");
    else setAsking({ task, to });
  };
  if (fault !== null && tasks === null) return <Fault error={fault} again={load} />;
  if (tasks === null) return <Loading />;
  return (
    <>
      <div role="alert">{lost !== null && <LostMove lost={lost} crew={crew} onLeave={() => setLost(null)} onAgain={() => { setLost(null); void move({ ...lost.task, status: lost.current.status, version: lost.current.version }, lost.to, lost.text); }} />}</div>
      <NeedsYou project={project} tasks={tasks} crew={crew} onChange={load} />
      <AgentsNow tasks={tasks} crew={crew} onChange={load} />
      <div class="board-bar">
        <Tabs label={t("nav.board")} tabs={[{ id: "columns", name: t("board.tasks"), count: tasks.length }, { id: "timeline", name: t("board.timeline") }]} value={tab} onChange={(id) => replaceQuery(new URLSearchParams({ project: project.key, ...(id === "timeline" ? { tab: "timeline" } : {}) }).toString())} />
        <button type="button" class="primary" data-key="n" {...refusing(whyNotWrite(), () => setNew(true))}><Icon name="plus" />{t("board.newTask")}</button>
      </div>
      <Panel id={tab}>
        {tab === "columns" ? <Columns tasks={tasks} crew={crew} selected={selected} project={project} onMove={want} /> : <Timeline project={project} tasks={tasks} crew={crew} />}
      </Panel>
      {selected !== undefined && <TaskPanel id={selected} crew={crew} project={project} onMove={want} onChange={load} onClose={() => go(`${to("board")}?project=${project.key}`)} />}
      {isNew && <NewTask project={project} crew={crew} onClose={() => setNew(false)} onDone={(task) => { setNew(false); toast("good", t("board.created", { ref: task.ref })); load(); }} />}
      {asking !== null && <Words task={asking.task} to={asking.to} onClose={() => setAsking(null)} onGive={(text) => { setAsking(null); void move(asking.task, asking.to, text); }} />}
    </>
  );
}

/** Loads what the board shows, again whenever `pm` says that something happened, at most a few times in a second. */
function useLoader(project: Project, setTasks: (tasks: TaskRow[]) => void, setCrew: (crew: Crew) => void, setFault: (fault: unknown) => void): () => void {
  const timer = useRef<ReturnType<typeof setTimeout> | null>(null);
  const latest = useRef(0);
  const loadNow = async () => {
    timer.current = null;
    const turn = ++latest.current;
    try {
      const [tasks, crew] = await Promise.all([loadTasks(project.id), loadCrew(project)]);
      if (turn !== latest.current) return;
      setTasks(tasks);
      setCrew(crew);
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
    return () => { stop(); if (timer.current !== null) clearTimeout(timer.current); latest.current += 1; };
  }, [project.id, isLive]);
  return load;
}

async function loadCrew(project: Project): Promise<Crew> {
  const [{ agents }, { sessions }] = await Promise.all([
    pm<{ agents: Agent[] }>("list_agents", { project_id: project.id, limit: 200 }),
    // Only some may see sessions; the board works without.
    pm<{ sessions: LiveSession[] }>("list_sessions", { limit: 100 }).catch(() => ({ sessions: [] })),
  ]);
  const names = new Map(agents.map((agent) => [agent.id, agent.name]));
  return { agents, sessions, name: (id) => (id === "agt_local" ? t("board.you") : id ? names.get(id) ?? id : "–") };
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

