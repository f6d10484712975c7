/** What a server asks in the middle of a call. It says who asks, lets everything be reviewed, and can always be declined. */

import { useEffect, useRef, useState } from "preact/hooks";
import { t } from "../lib/i18n";
import type { InputRequest } from "../lib/mcp";
import { initial, validate } from "../lib/schema";
import type { Json, JsonObject, Schema } from "../lib/types";
import { SchemaForm, useUnread } from "../part/form";
import { Tree } from "../part/tree";

const ANYTHING: Schema = { type: "object", properties: {} };

export function Questions({ server, asked, onAnswer }: { server: string; asked: Record<string, InputRequest>; onAnswer: (answers: JsonObject | null) => void }) {
  const names = Object.keys(asked);
  const [answers, setAnswers] = useState<Record<string, Json>>({});
  const open = names.find((name) => answers[name] === undefined);
  const box = useRef<HTMLElement>(null);
  useEffect(() => { box.current?.focus(); }, [open]);
  const give = (name: string, answer: Json) => {
    const next = { ...answers, [name]: answer };
    setAnswers(next);
    if (names.every((one) => next[one] !== undefined)) onAnswer(next);
  };
  if (open === undefined) return null;
  return (
    <section ref={box} class="question" aria-label={t("ask.title", { server })} tabIndex={-1}>
      <p class="question-who">{t("ask.title", { server })}{names.length > 1 && ` (${names.indexOf(open) + 1}/${names.length})`}</p>
      <Question key={open} request={asked[open]!} onGive={(answer) => give(open, answer)} onEnd={() => onAnswer(null)} />
    </section>
  );
}

function Question({ request, onGive, onEnd }: { request: InputRequest; onGive: (answer: Json) => void; onEnd: () => void }) {
  if (request.method === "sampling/createMessage") return <SamplingQuestion request={request} onGive={onGive} onEnd={onEnd} />;
  if (request.method !== "elicitation/create") {
    return <><p>{t("ask.unknown", { method: request.method })}</p><div class="actions"><button type="button" onClick={onEnd}>{t("cancel")}</button></div></>;
  }
  if (request.params?.mode === "url") return <UrlQuestion request={request} onGive={onGive} />;
  return <FormQuestion request={request} onGive={onGive} />;
}

function FormQuestion({ request, onGive }: { request: InputRequest; onGive: (answer: Json) => void }) {
  const schema = request.params?.requestedSchema ?? ANYTHING;
  const [value, setValue] = useState<Json | undefined>(() => initial(schema, schema) ?? {});
  const [showAll, setShowAll] = useState(false);
  const problems = validate(schema, value, schema);
  const unread = useUnread();
  const submit = (event: Event) => {
    event.preventDefault();
    setShowAll(true);
    if (problems.length === 0 && unread.current!.size === 0) onGive({ action: "accept", content: value ?? {} });
  };
  return (
    <form class="stack" onSubmit={submit}>
      <p class="question-text">{request.params?.message}</p>
      <SchemaForm schema={schema} value={value} onChange={setValue} problems={problems} showAll={showAll} unread={unread} />
      <div class="actions">
        <button type="submit" class="primary">{t("ask.answer")}</button>
        <button type="button" onClick={() => onGive({ action: "decline" })}>{t("ask.decline")}</button>
        <button type="button" class="link" onClick={() => onGive({ action: "cancel" })}>{t("ask.cancel")}</button>
      </div>
      <p class="note small">{t("ask.secret")}</p>
    </form>
  );
}

/** The person answers in place of a model. */
function SamplingQuestion({ request, onGive, onEnd }: { request: InputRequest; onGive: (answer: Json) => void; onEnd: () => void }) {
  const [text, setText] = useState("");
  const { systemPrompt, messages, maxTokens } = (request.params ?? {}) as { systemPrompt?: Json; messages?: Json; maxTokens?: Json };
  const submit = (event: Event) => {
    event.preventDefault();
    onGive({ role: "assistant", content: { type: "text", text }, model: "human", stopReason: "endTurn" });
  };
  return (
    <form class="stack" onSubmit={submit}>
      <p class="question-text">{t("ask.sampling")}</p>
      {typeof systemPrompt === "string" && <p class="note">{systemPrompt}</p>}
      {messages !== undefined && <div class="code"><Tree value={messages} /></div>}
      <label class="field"><span>{t("ask.sampling.answer", { n: String(maxTokens ?? "–") })}</span><textarea rows={6} required value={text} onInput={(event) => setText(event.currentTarget.value)} /></label>
      <div class="actions">
        <button type="submit" class="primary">{t("ask.answer")}</button>
        <button type="button" onClick={onEnd}>{t("cancel")}</button>
      </div>
    </form>
  );
}

function UrlQuestion({ request, onGive }: { request: InputRequest; onGive: (answer: Json) => void }) {
  const address = String(request.params?.url ?? "");
  const url = URL.canParse(address) ? new URL(address) : null;
  const isWeb = url !== null && (url.protocol === "https:" || url.protocol === "http:");
  return (
    <div class="stack">
      <p class="question-text">{request.params?.message}</p>
      <p>{t("ask.url")} <b class="mono">{url?.host ?? address}</b></p>
      <p class="mono small">{address}</p>
      <div class="actions">
        {isWeb && <a class="button primary" href={address} target="_blank" rel="noopener noreferrer">{t("ask.open")}</a>}
        <button type="button" onClick={() => onGive({ action: "accept" })}>{t("ask.opened")}</button>
        <button type="button" onClick={() => onGive({ action: "decline" })}>{t("ask.decline")}</button>
      </div>
    </div>
  );
}
