/** What the board asks a person for. */

import { useState } from "preact/hooks";
import { t } from "../lib/i18n";
import { change, moveNeeds, PRIORITIES, type Priority, type Project, type Status, type Task, type TaskRow } from "../lib/pm";
import { Dialog, Fault } from "../part/basics";
import type { Crew } from "./board";

/** One text that must be given. */
export function Ask({ title, label, onClose, onGive }: { title: string; label: string; onClose: () => void; onGive: (text: string) => void }) {
  const [text, setText] = useState("");
  return (
    <Dialog title={title} onClose={onClose}>
      <form class="stack" onSubmit={(event) => { event.preventDefault(); if (text.trim() !== "") onGive(text.trim()); }}>
        <div class="field"><label for="ask-text">{label}</label><textarea id="ask-text" rows={3} required value={text} onInput={(event) => setText(event.currentTarget.value)} autofocus /></div>
        <div class="actions"><button type="submit" class="primary" disabled={text.trim() === ""}>{t("ok")}</button><button type="button" onClick={onClose}>{t("cancel")}</button></div>
      </form>
    </Dialog>
  );
}

/** The words that a move needs: a reason, or what came out. */
export function Words({ task, to, onClose, onGive }: { task: TaskRow; to: Status; onClose: () => void; onGive: (text: string) => void }) {
  const label = moveNeeds(task.status, to) === "summary" ? t("board.summary") : t("board.reason");
  return <Ask title={`${task.ref} → ${t(`status.${to}`)}`} label={label} onClose={onClose} onGive={onGive} />;
}

export function NewTask({ project, crew, onClose, onDone }: { project: Project; crew: Crew; onClose: () => void; onDone: (task: Task) => void }) {
  const [title, setTitle] = useState("");
  const [description, setDescription] = useState("");
  const [priority, setPriority] = useState<Priority>("medium");
  const [status, setStatus] = useState<"todo" | "backlog">("todo");
  const [assignee, setAssignee] = useState("");
  const [acceptance, setAcceptance] = useState("");
  const [fault, setFault] = useState<unknown>(null);
  const submit = async (event: Event) => {
    event.preventDefault();
    const lines = acceptance.split("\n").map((line) => line.trim()).filter((line) => line !== "");
    try {
      const { task } = await change<{ task: Task }>("create_task", { project_id: project.id, title: title.trim(), priority, status, ...(description.trim() ? { description: description.trim() } : {}), ...(assignee ? { assignee_id: assignee } : {}), ...(lines.length > 0 ? { acceptance: lines } : {}) });
      onDone(task);
    } catch (error) {
      setFault(error);
    }
  };
  return (
    <Dialog title={`${t("board.newTask")} · ${project.key}`} onClose={onClose}>
      <form class="stack" onSubmit={submit}>
        <div class="field"><label for="task-title">{t("task.title")}</label><input id="task-title" required maxLength={200} autocomplete="off" value={title} onInput={(event) => setTitle(event.currentTarget.value)} autofocus /></div>
        <div class="field"><label for="task-description">{t("task.description")}</label><textarea id="task-description" rows={4} value={description} onInput={(event) => setDescription(event.currentTarget.value)} /></div>
        <div class="field"><label for="task-acceptance">{t("task.acceptance")}</label><textarea id="task-acceptance" rows={2} value={acceptance} onInput={(event) => setAcceptance(event.currentTarget.value)} /><span class="field-help">{t("task.acceptance.help")}</span></div>
        <div class="three">
          <div class="field"><label for="task-priority">{t("task.priority")}</label><select id="task-priority" value={priority} onChange={(event) => setPriority(event.currentTarget.value as Priority)}>{PRIORITIES.map((one) => <option key={one} value={one}>{t(`priority.${one}`)}</option>)}</select></div>
          <div class="field"><label for="task-status">{t("task.status")}</label><select id="task-status" value={status} onChange={(event) => setStatus(event.currentTarget.value as "todo")}><option value="todo">{t("status.todo")}</option><option value="backlog">{t("status.backlog")}</option></select></div>
          <div class="field"><label for="task-assignee">{t("board.assignee")}</label><select id="task-assignee" value={assignee} onChange={(event) => setAssignee(event.currentTarget.value)}><option value="">{t("board.nobody")}</option>{crew.agents.map((agent) => <option key={agent.id} value={agent.id}>{crew.name(agent.id)}</option>)}</select></div>
        </div>
        {fault !== null && <Fault error={fault} />}
        <div class="actions"><button type="submit" class="primary">{t("board.create")}</button><button type="button" onClick={onClose}>{t("cancel")}</button></div>
      </form>
    </Dialog>
  );
}

export function NewProject({ onClose, onDone }: { onClose: () => void; onDone: (key: string) => void }) {
  const [key, setKey] = useState("");
  const [name, setName] = useState("");
  const [fault, setFault] = useState<unknown>(null);
  const submit = async (event: Event) => {
    event.preventDefault();
    try {
      await change("create_project", { key, name: name.trim() });
      onDone(key);
    } catch (error) {
      setFault(error);
    }
  };
  return (
    <Dialog title={t("board.newProject")} onClose={onClose}>
      <form class="stack" onSubmit={submit}>
        <div class="field"><label for="project-name">{t("project.name")}</label><input id="project-name" required maxLength={120} autocomplete="off" value={name} onInput={(event) => setName(event.currentTarget.value)} autofocus /></div>
        <div class="field"><label for="project-key">{t("project.key")}</label><input id="project-key" class="mono" required pattern="[A-Z][A-Z0-9]{1,9}" autocomplete="off" value={key} onInput={(event) => setKey(event.currentTarget.value.toUpperCase())} /><span class="field-help">{t("project.key.help")}</span></div>
        {fault !== null && <Fault error={fault} />}
        <div class="actions"><button type="submit" class="primary">{t("board.create")}</button><button type="button" onClick={onClose}>{t("cancel")}</button></div>
      </form>
    </Dialog>
  );
}
