/** Any tool, prompt or resource, tried by hand. */

import { useEffect, useState } from "preact/hooks";
import { type Catalog, catalogs, loadCatalog } from "../lib/catalog";
import { t } from "../lib/i18n";
import { go, to } from "../lib/route";
import { promptSchema } from "../lib/run";
import { serverNames, servers } from "../lib/store";
import type { Schema } from "../lib/types";
import { Empty, Fault, Loading, Prose } from "../part/basics";
import { Hints } from "../part/chip";
import { Bench, type Offer } from "./bench";

export function TryIt({ server, kind, name }: { server: string | undefined; kind: string | undefined; name: string | undefined }) {
  const chosen = server ?? serverNames.value[0];
  const [fault, setFault] = useState<unknown>(null);
  const row = servers.value?.find((one) => one.name === chosen);
  useEffect(() => {
    setFault(null);
    if (chosen !== undefined) loadCatalog(chosen, catalogs.value[chosen]?.startedAt !== row?.startedAt).catch(setFault);
  }, [chosen, row?.startedAt, row?.state]);
  const catalog = chosen === undefined ? undefined : catalogs.value[chosen];
  return (
    <>
      <div class="head"><h1>{t("nav.try")}</h1>{chosen !== undefined && <p class="summary"><span>{t("try.via", { server: chosen })}</span></p>}</div>
      {servers.value?.length === 0 ? <Empty title={t("overview.none")}><p><a href="#/">{t("nav.overview")}</a></p></Empty> : (
        <div class={`try ${name === undefined ? "nothing-chosen" : ""}`}>
          <Picker server={chosen} catalog={catalog} kind={kind} name={name} />
          <section class="bench" aria-label={t("try.bench")}>
            {fault !== null ? <Fault error={fault} /> : catalog === undefined ? <Loading /> : name === undefined ? <Empty title={t("try.choose")}><p>{t("try.choose.note")}</p></Empty> : <Chosen key={`${chosen} ${kind} ${name}`} server={chosen!} catalog={catalog} kind={kind!} name={name} />}
          </section>
        </div>
      )}
    </>
  );
}

function Picker({ server, catalog, kind, name }: { server: string | undefined; catalog: Catalog | undefined; kind: string | undefined; name: string | undefined }) {
  const [text, setText] = useState("");
  const fits = (...words: (string | undefined)[]) => words.join(" ").toLowerCase().includes(text.toLowerCase());
  const entries = catalog === undefined ? [] : [
    ...catalog.tools.filter((tool) => fits(tool.name, tool.title, tool.description)).map((tool) => ({ kind: "tool", id: tool.name, label: tool.name })),
    ...catalog.prompts.filter((prompt) => fits(prompt.name, prompt.description)).map((prompt) => ({ kind: "prompt", id: prompt.name, label: prompt.name })),
    ...catalog.resources.filter((resource) => fits(resource.name, resource.uri)).map((resource) => ({ kind: "resource", id: resource.uri, label: resource.name })),
  ];
  const groups = [["tool", t("tab.tools")], ["prompt", t("tab.prompts")], ["resource", t("tab.resources")]] as const;
  return (
    <div class="picker">
      <label class="field"><span>{t("col.server")}</span><select value={server} onChange={(event) => go(to("try", event.currentTarget.value))}>{serverNames.value.map((one) => <option key={one} value={one}>{one}</option>)}</select></label>
      <input type="search" aria-label={t("server.filter")} placeholder={t("server.filter")} value={text} onInput={(event) => setText(event.currentTarget.value)} />
      <nav aria-label={t("try.offers")}>
        {groups.map(([group, title]) => {
          const own = entries.filter((entry) => entry.kind === group);
          return own.length === 0 ? null : (
            <div key={group}>
              <h2>{title}</h2>
              <ul>{own.slice(0, 300).map((entry) => <li key={entry.id}><a data-row class="mono" href={to("try", server!, entry.kind, entry.id)} aria-current={kind === entry.kind && name === entry.id ? "true" : undefined}>{entry.label}</a></li>)}</ul>
            </div>
          );
        })}
        {catalog !== undefined && entries.length === 0 && <p class="note">{t("search.none")}</p>}
      </nav>
    </div>
  );
}

function Chosen({ server, catalog, kind, name }: { server: string; catalog: Catalog; kind: string; name: string }) {
  const offer = find(catalog, kind, name);
  if (offer === null) return <Empty title={t("try.gone", { name })}><p>{t("try.gone.note")}</p></Empty>;
  return (
    <>
      <div class="offer-title">
        <a class="back" href={to("try", server)}>{t("back")}</a>
        <h2 class="mono">{offer.label}</h2>
        {offer.tool && <Hints tool={offer.tool} />}
      </div>
      {offer.title && <p class="strong">{offer.title}</p>}
      {offer.description && <Prose text={offer.description} />}
      <Bench server={server} offer={offer} />
    </>
  );
}

function find(catalog: Catalog, kind: string, name: string): Offer | null {
  if (kind === "prompt") {
    const prompt = catalog.prompts.find((one) => one.name === name);
    return prompt === undefined ? null : { kind: "prompt", id: name, label: name, title: prompt.title, description: prompt.description, schema: promptSchema(prompt.arguments ?? []) as Schema };
  }
  if (kind === "resource") {
    const resource = catalog.resources.find((one) => one.uri === name);
    const template = catalog.templates.find((one) => one.uriTemplate === name);
    const about = resource ?? template;
    const schema: Schema = { type: "object", properties: { uri: { type: "string", ...(template ? { description: t("try.template", { template: name }) } : {}), default: name } }, required: ["uri"] };
    return { kind: "resource", id: name, label: about?.name ?? name, title: about?.title, description: about?.description, schema };
  }
  const tool = catalog.tools.find((one) => one.name === name);
  return tool === undefined ? null : { kind: "tool", id: name, label: name, title: tool.title ?? tool.annotations?.title, description: tool.description, schema: tool.inputSchema ?? { type: "object" }, outputSchema: tool.outputSchema, tool };
}
