/** Where one thing is tried: its arguments as a form or as JSON, its progress, its questions, its result. */

import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { takePrepared } from "../lib/again";
import { session } from "../lib/api";
import { copyAs, LANGUAGES, type Language } from "../lib/copy";
import { milliseconds } from "../lib/format";
import { t } from "../lib/i18n";
import type { LogNote } from "../lib/mcp";
import { whyNotCall } from "../lib/rights";
import { go, to } from "../lib/route";
import { type Phase, Runner } from "../lib/run";
import { headerValues, initial, isObject, validate } from "../lib/schema";
import { isWantedForm } from "../lib/shortcut";
import { dropGoodNews, toast } from "../lib/store";
import type { Json, JsonObject, Schema, Tool } from "../lib/types";
import { CopyButton, Fault, Tabs } from "../part/basics";
import { SchemaForm, type Unread, useParsing, useUnread } from "../part/form";
import { Result } from "../part/result";
import { Questions } from "./questions";

export interface Offer {
  kind: "tool" | "prompt" | "resource";
  id: string;
  label: string;
  title?: string | undefined;
  description?: string | undefined;
  schema: Schema;
  outputSchema?: Schema | undefined;
  tool?: Tool;
}

export function Bench({ server, offer }: { server: string; offer: Offer }) {
  const [value, setValue] = useState<Json | undefined>(() => (offer.kind === "tool" ? takePrepared(server, offer.id) : undefined) ?? initial(offer.schema, offer.schema) ?? {});
  const [mode, setMode] = useState<"form" | "json">("form");
  const [showAll, setShowAll] = useState(false);
  const [phase, setPhase] = useState<Phase>({ name: "idle" });
  const [notes, setNotes] = useState<LogNote[]>([]);
  const runner = useRef<Runner | null>(null);
  const sent = useRef<Json | undefined>(undefined);
  const problems = useMemo(() => validate(offer.schema, value, offer.schema), [value, offer.schema]);
  const unread = useUnread();

  useEffect(() => {
    runner.current = new Runner(setPhase, (note) => setNotes((old) => [...old, note].slice(-200)));
    return () => runner.current?.cancel();
  }, []);

  // Who came by search writes at once; whoever follows a link begins at the top of the page.
  const form = useRef<HTMLFormElement>(null);
  useEffect(() => {
    if (!isWantedForm()) return;
    const frame = requestAnimationFrame(() => form.current?.querySelector<HTMLElement>(".fields :is(input, textarea, select), [type=submit]")?.focus());
    return () => cancelAnimationFrame(frame);
  }, []);

  const outcome = useRef<HTMLDivElement>(null);
  // Old good news must not lie over a question or a result.
  useEffect(() => { if (phase.name === "asking" || phase.name === "done" || phase.name === "failed") dropGoodNews(); }, [phase.name]);
  useEffect(() => { if (phase.name === "done" || phase.name === "failed") outcome.current?.scrollIntoView({ block: "nearest" }); }, [phase.name]);

  const values = isObject(value) ? value : {};
  const why = whyNotCall();
  const send = () => {
    if (why !== null) return toast("note", why);
    if (unread.current!.size > 0) {
      form.current?.querySelector<HTMLElement>("textarea[aria-invalid]")?.focus();
      return toast("bad", t("try.unread"), t("try.unread.hint"));
    }
    setShowAll(true);
    setNotes([]);
    sent.current = value;
    void runner.current?.run({ server, ...requestOf(offer, values) });
  };
  const isRunning = phase.name === "running" || phase.name === "asking";
  // A result of other arguments than the form shows is dimmed: an error that is being corrected looks current otherwise.
  const isOld = (phase.name === "done" || phase.name === "failed") && sent.current !== value;
  // Wherever the focus is: the page has one form to send. Set while rendering, so that no key sends older arguments.
  const press = useRef<() => void>(() => {});
  press.current = () => { if (!isRunning) send(); };
  useEffect(() => {
    const listen = (event: KeyboardEvent) => {
      if (event.key !== "Enter" || !(event.ctrlKey || event.metaKey) || event.defaultPrevented) return;
      event.preventDefault();
      press.current();
    };
    addEventListener("keydown", listen);
    return () => removeEventListener("keydown", listen);
  }, []);
  return (
    <div class="panes">
      <form ref={form} class="stack" onSubmit={(event) => { event.preventDefault(); if (!isRunning) send(); }}>
        <Tabs label={t("try.mode")} tabs={[{ id: "form", name: t("try.form") }, { id: "json", name: "JSON" }]} value={mode} onChange={setMode} />
        <div role="tabpanel" id={`panel-${mode}`} aria-labelledby={`tab-${mode}`}>
          {mode === "form" ? <SchemaForm schema={offer.schema} value={value} onChange={setValue} problems={problems} showAll={showAll} unread={unread} /> : <JsonEditor value={value} onChange={setValue} unread={unread} problems={problems.map((problem) => `${problem.path || "/"} ${t(problem.key, problem.args)}`)} />}
        </div>
        <div class="actions">
          <button type="submit" class="primary" disabled={isRunning} aria-disabled={why !== null || undefined} title={why ?? undefined}>{offer.kind === "tool" ? t("try.call") : t("try.get")}</button>
          {isRunning && <button type="button" onClick={() => runner.current?.cancel()}>{t("cancel")}</button>}
          {problems.length > 0 && why === null && <span class="note">{t(problems.every((one) => one.key === "form.required") ? "try.missing" : "try.problems", { n: problems.length })}</span>}
          <kbd class="wide-only">Ctrl Enter</kbd>
        </div>
      </form>
      <div class="answer">
        <div ref={outcome} aria-live="polite" class={`outcome ${isOld ? "old" : ""}`}>
          {phase.name === "idle" && <p class="note wide-only">{t("try.idle")}</p>}
          <Progressing phase={phase} />
          {phase.name === "asking" && <Questions key={phase.round} server={server} asked={phase.asked} onAnswer={(answers) => runner.current?.answer(answers)} />}
          {phase.name === "cancelled" && <p class="note">{t("try.cancelled")}</p>}
          {phase.name === "failed" && <Fault error={phase.fault} />}
          {phase.name === "done" && <p class="sub">{t("try.took", { took: milliseconds(phase.tookMs) })}</p>}
          {phase.name === "done" && <Result result={phase.result} outputSchema={offer.outputSchema} onRead={(uri) => go(to("try", server, "resource", uri))} />}
        </div>
        {notes.length > 0 && <Notes notes={notes} />}
        {offer.kind === "tool" && <CopyAs server={server} tool={offer.id} schema={offer.schema} values={values} />}
      </div>
    </div>
  );
}

function requestOf(offer: Offer, values: JsonObject): { method: string; params: JsonObject; headers: Record<string, string> } {
  switch (offer.kind) {
    case "tool": return { method: "tools/call", params: { name: offer.id, arguments: values }, headers: headerValues(offer.schema, values) };
    case "prompt": return { method: "prompts/get", params: { name: offer.id, arguments: values }, headers: {} };
    case "resource": return { method: "resources/read", params: { uri: String(values.uri ?? offer.id) }, headers: {} };
  }
}

function Progressing({ phase }: { phase: Phase }) {
  if (phase.name !== "running") return null;
  const { progress } = phase;
  const share = progress?.total ? Math.min(1, progress.progress / progress.total) : undefined;
  return (
    <div class="progress">
      <progress aria-label={t("try.progress")} max={1} {...(share === undefined ? {} : { value: share })} />
      <span class="num">{progress === null ? t("try.running") : `${progress.progress}${progress.total ? ` / ${progress.total}` : ""}`}</span>
      {progress?.message && <span>{progress.message}</span>}
    </div>
  );
}

function JsonEditor({ value, onChange, unread, problems }: { value: Json | undefined; onChange: (value: Json | undefined) => void; unread: Unread; problems: string[] }) {
  const [text, setText] = useState(() => JSON.stringify(value ?? {}, null, 2));
  const [fault, setFault] = useState<string | null>(null);
  const tellParsing = useParsing(unread);
  const tell = (found: string | null) => { setFault(found); tellParsing(found !== null); };
  const change = (next: string) => {
    setText(next);
    try {
      onChange(JSON.parse(next) as Json);
      tell(null);
    } catch (error) {
      tell((error as Error).message);
    }
  };
  const shown = fault === null ? problems.slice(0, 5) : [fault];
  return (
    <div class={`field ${shown.length > 0 ? "wrong" : ""}`}>
      <textarea class="mono" aria-label={t("try.json")} aria-invalid={shown.length > 0 || undefined} aria-describedby="json-problems" rows={Math.min(24, Math.max(6, text.split("\n").length + 1))} spellcheck={false} value={text} onInput={(event) => change(event.currentTarget.value)} />
      <div id="json-problems">{shown.map((problem, at) => <span key={at} class="field-problem">{problem}</span>)}</div>
    </div>
  );
}

function Notes({ notes }: { notes: LogNote[] }) {
  return (
    <details class="notes">
      <summary>{t("try.notes", { n: notes.length })}</summary>
      <div class="log mono">{notes.map((note, at) => <div key={at}><b>{note.level}</b> {typeof note.data === "string" ? note.data : JSON.stringify(note.data)}</div>)}</div>
    </details>
  );
}

function CopyAs({ server, tool, schema, values }: { server: string; tool: string; schema: Schema; values: JsonObject }) {
  const [language, setLanguage] = useState<Language>("curl");
  const text = copyAs(language, { origin: location.origin, server, tool, schema, values, needsKey: session.value?.authRequired ?? false });
  const names: Record<Language, string> = { curl: "curl", tsugi: "tsugi call", typescript: "TypeScript", python: "Python" };
  return (
    <details class="copy-as">
      <summary>{t("try.copyAs")}</summary>
      <Tabs label={t("try.copyAs")} tabs={LANGUAGES.map((id) => ({ id, name: names[id] }))} value={language} onChange={setLanguage} />
      <div role="tabpanel" id={`panel-${language}`} aria-labelledby={`tab-${language}`} class="copy-text">
        <pre class="code" tabIndex={0}>{text}</pre>
        <CopyButton text={text} />
      </div>
    </details>
  );
}
