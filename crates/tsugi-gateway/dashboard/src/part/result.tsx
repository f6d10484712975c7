/** What a call gave, by content type. Everything here was written by a stranger: it is shown, never run. */

import { useState } from "preact/hooks";
import { t } from "../lib/i18n";
import { isObject, validate } from "../lib/schema";
import type { Json, JsonObject, Schema } from "../lib/types";
import { bytes } from "../lib/format";
import { Chip } from "./chip";
import { CopyButton } from "./basics";
import { Tree } from "./tree";

/** Longer texts are shown in part; the rest can be copied. */
const MOST_TEXT = 200_000;

export function Result({ result, outputSchema, onRead }: { result: JsonObject; outputSchema: Schema | undefined; onRead: (uri: string) => void }) {
  const [isRaw, setRaw] = useState(false);
  const content = Array.isArray(result.content) ? result.content : [];
  const contents = Array.isArray(result.contents) ? result.contents : [];
  const messages = Array.isArray(result.messages) ? result.messages : [];
  const structured = result.structuredContent;
  return (
    <div class={`result ${result.isError === true ? "is-error" : ""}`}>
      <div class="result-head">
        {result.isError === true ? <Chip tone="bad">{t("result.toolError")}</Chip> : <Chip tone="good">{t("result.ok")}</Chip>}
        <span class="grow" />
        <button type="button" class="quiet" aria-pressed={isRaw} onClick={() => setRaw(!isRaw)}>{t("result.raw")}</button>
        <CopyButton text={JSON.stringify(result, null, 2)} />
      </div>
      {isRaw ? <pre class="code">{JSON.stringify(result, null, 2).slice(0, MOST_TEXT)}</pre> : (
        <>
          {content.map((block, at) => <Block key={at} block={block} onRead={onRead} />)}
          {contents.map((block, at) => <Resource key={at} resource={block} />)}
          {messages.map((message, at) => <Message key={at} message={message} onRead={onRead} />)}
          {structured !== undefined && <Structured value={structured} schema={outputSchema} />}
          {content.length + contents.length + messages.length === 0 && structured === undefined && <p class="note">{t("result.nothing")}</p>}
        </>
      )}
    </div>
  );
}

function Message({ message, onRead }: { message: Json; onRead: (uri: string) => void }) {
  if (!isObject(message)) return null;
  return <div class="message"><p class="message-role">{String(message.role)}</p><Block block={message.content ?? null} onRead={onRead} /></div>;
}

function Structured({ value, schema }: { value: Json; schema: Schema | undefined }) {
  const problems = schema === undefined ? [] : validate(schema, value, schema);
  return (
    <section class="structured">
      <h4>{t("result.structured")} {schema !== undefined && (problems.length === 0 ? <Chip tone="good">{t("result.fits")}</Chip> : <Chip tone="bad">{t("result.fitsNot")}</Chip>)}</h4>
      {problems.slice(0, 5).map((problem, at) => <p key={at} class="field-problem"><span class="mono">{problem.path || "/"}</span> {t(problem.key, problem.args)}</p>)}
      <div class="code"><Tree value={value} /></div>
    </section>
  );
}

function Block({ block, onRead }: { block: Json; onRead: (uri: string) => void }) {
  if (!isObject(block)) return <Tree value={block} />;
  switch (block.type) {
    case "text": return <TextBlock text={String(block.text ?? "")} />;
    case "image": return <Picture data={block.data} mime={block.mimeType} />;
    case "audio": return <Sound data={block.data} mime={block.mimeType} />;
    case "resource_link": return <Link link={block} onRead={onRead} />;
    case "resource": return <Resource resource={block.resource ?? null} />;
    default: return <div class="code"><Tree value={block} /></div>;
  }
}

function TextBlock({ text }: { text: string }) {
  const parsed = asJson(text);
  const [asTree, setTree] = useState(true);
  if (parsed === undefined) return <pre class="text">{clip(text)}</pre>;
  return (
    <div class="text-block">
      <button type="button" class="link" onClick={() => setTree(!asTree)}>{asTree ? t("result.asText") : t("result.asTree")}</button>
      {asTree ? <div class="code"><Tree value={parsed} /></div> : <pre class="text">{clip(text)}</pre>}
    </div>
  );
}

function clip(text: string): string {
  return text.length > MOST_TEXT ? `${text.slice(0, MOST_TEXT)}…` : text;
}

/** Text that is a JSON object or list. */
function asJson(text: string): Json | undefined {
  if (!/^\s*[[{]/.test(text) || text.length > 2_000_000) return undefined;
  try {
    return JSON.parse(text) as Json;
  } catch {
    return undefined;
  }
}

/** A data address, only for kinds that cannot run anything. */
function dataUrl(data: Json | undefined, mime: Json | undefined, family: "image" | "audio"): string | null {
  if (typeof data !== "string" || typeof mime !== "string" || !/^[A-Za-z0-9+/=_\s-]*$/.test(data)) return null;
  return new RegExp(`^${family}/[a-z0-9.+-]+$`).test(mime) ? `data:${mime};base64,${data}` : null;
}

function Picture({ data, mime }: { data: Json | undefined; mime: Json | undefined }) {
  const url = dataUrl(data, mime, "image");
  if (url === null) return <p class="note">{t("result.unshowable", { mime: String(mime) })}</p>;
  return <figure><img src={url} alt={t("result.image")} /><figcaption>{String(mime)} · {bytes(Math.floor(String(data).length * 0.75))}</figcaption></figure>;
}

function Sound({ data, mime }: { data: Json | undefined; mime: Json | undefined }) {
  const url = dataUrl(data, mime, "audio");
  if (url === null) return <p class="note">{t("result.unshowable", { mime: String(mime) })}</p>;
  return <figure><audio controls src={url} aria-label={t("result.audio")} /><figcaption>{String(mime)}</figcaption></figure>;
}

function Link({ link, onRead }: { link: JsonObject; onRead: (uri: string) => void }) {
  const uri = String(link.uri ?? "");
  return (
    <div class="resource-link">
      <div><p class="strong">{String(link.title ?? link.name ?? uri)}</p><p class="mono small">{uri}</p>{typeof link.description === "string" && <p class="small">{link.description}</p>}</div>
      <button type="button" onClick={() => onRead(uri)}>{t("result.read")}</button>
    </div>
  );
}

function Resource({ resource }: { resource: Json }) {
  if (!isObject(resource)) return null;
  const mime = typeof resource.mimeType === "string" ? resource.mimeType : "";
  return (
    <section class="resource">
      <p class="mono small">{String(resource.uri ?? "")}{mime && ` · ${mime}`}</p>
      {typeof resource.text === "string" ? <TextBlock text={resource.text} /> : mime.startsWith("image/") ? <Picture data={resource.blob} mime={mime} /> : mime.startsWith("audio/") ? <Sound data={resource.blob} mime={mime} /> : <p class="note">{t("result.unshowable", { mime: mime || "?" })}</p>}
    </section>
  );
}
