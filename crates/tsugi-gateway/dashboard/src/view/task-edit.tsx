/** Editing a task. If somebody else was faster, both versions are shown and the person decides. */

import { useRef, useState } from "preact/hooks";
import { t, word } from "../lib/i18n";
import { change, Conflict, differences, type Task } from "../lib/pm";
import type { Json, JsonObject } from "../lib/types";
import { Fault } from "../part/basics";

export function EditTask({ task, onClose, onDone }: { task: Task; onClose: () => void; onDone: () => void }) {
  // The version the person began with; what the stream brings meanwhile must not move it.
  const base = useRef(task);
  const [title, setTitle] = useState(task.title);
  const [description, setDescription] = useState(task.description ?? "");
  const [labels, setLabels] = useState((task.labels ?? []).join(", "));
  const [conflict, setConflict] = useState<Task | null>(null);
  const [fault, setFault] = useState<unknown>(null);

  const mine = (): Record<string, Json> => {
    const all: Record<string, Json> = { title: title.trim(), description, labels: labels.split(",").map((one) => one.trim()).filter((one) => one !== "") };
    const from = base.current as unknown as Record<string, Json | undefined>;
    return Object.fromEntries(Object.entries(all).filter(([field, value]) => JSON.stringify(value) !== JSON.stringify(from[field] ?? (field === "labels" ? [] : ""))));
  };
  const save = async (version: number) => {
    setFault(null);
    const { labels: changedLabels, ...rest } = mine();
    const args: JsonObject = { task_id: task.id, ...rest, ...(changedLabels === undefined ? {} : { labels: { set: changedLabels } }), expected_version: version };
    if (Object.keys(mine()).length === 0) return onClose();
    try {
      await change("update_task", args);
      onDone();
    } catch (error) {
      if (error instanceof Conflict) setConflict(error.current);
      else setFault(error);
    }
  };
  const isStale = conflict === null && task.version !== base.current.version;
  return (
    <form class="stack edit" onSubmit={(event) => { event.preventDefault(); void save(base.current.version); }}>
      {isStale && <p class="notice warn" role="status">{t("task.meanwhile")}</p>}
      <div class="field"><label for="edit-title">{t("task.title")}</label><input id="edit-title" required maxLength={200} value={title} onInput={(event) => setTitle(event.currentTarget.value)} autofocus /></div>
      <div class="field"><label for="edit-description">{t("task.description")}</label><textarea id="edit-description" rows={8} value={description} onInput={(event) => setDescription(event.currentTarget.value)} /></div>
      <div class="field"><label for="edit-labels">{t("task.labels")}</label><input id="edit-labels" value={labels} onInput={(event) => setLabels(event.currentTarget.value)} /><span class="field-help">{t("task.labels.help")}</span></div>
      <div role="alert">
        {conflict !== null && (
          <div class="conflict">
            <p><b>{t("task.conflict", { version: conflict.version })}</b></p>
            <table><thead><tr><th scope="col">{t("task.field")}</th><th scope="col">{t("task.theirs")}</th><th scope="col">{t("task.mine")}</th></tr></thead><tbody>{differences(mine(), conflict).map((one) => <tr key={one.field}><th scope="row">{word("task", one.field)}</th><td>{write(one.theirs)}</td><td>{write(one.mine)}</td></tr>)}</tbody></table>
            <div class="actions"><button type="button" class="primary" onClick={onDone}>{t("task.takeTheirs")}</button><button type="button" onClick={() => save(conflict.version)}>{t("task.keepMine")}</button></div>
          </div>
        )}
      </div>
      {fault !== null && <Fault error={fault} />}
      {conflict === null && <div class="actions"><button type="submit" class="primary">{t("task.save")}</button><button type="button" onClick={onClose}>{t("cancel")}</button></div>}
    </form>
  );
}

function write(value: Json): string {
  const text = typeof value === "string" ? value : value === null ? "–" : Array.isArray(value) ? value.join(", ") : JSON.stringify(value);
  return text.length > 300 ? `${text.slice(0, 300)}…` : text || "–";
}
