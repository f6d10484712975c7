/** One server: what it offers, how it runs, what it says. */

import { useEffect, useRef, useState } from "preact/hooks";
import { loadServer } from "../lib/catalog";
import { bytes, milliseconds, number, percent, rate, span } from "../lib/format";
import { t } from "../lib/i18n";
import { replaceQuery, route, to } from "../lib/route";
import { liveCalls, now, servers } from "../lib/store";
import { onLog } from "../lib/stream";
import type { Process, ServerDetail } from "../lib/types";
import { CopyButton, Empty, Fault, Loading, Panel, Prose, Tabs } from "../part/basics";
import { Hints, State } from "../part/chip";
import { Tree } from "../part/tree";
import { CallTable } from "./call-table";
import { Orders } from "./order";
import { Sandbox } from "./sandbox";

const TABS = ["tools", "resources", "prompts", "process", "log", "calls", "config"] as const;
type Tab = (typeof TABS)[number];

export function Server({ name }: { name: string }) {
  const [detail, setDetail] = useState<ServerDetail | null>(null);
  const [fault, setFault] = useState<unknown>(null);
  const row = servers.value?.find((server) => server.name === name);
  const load = () => loadServer(name).then((told) => { setDetail(told); setFault(null); }, setFault);
  // A server that came back may offer other things than before.
  useEffect(() => { void load(); }, [name, row?.state, row?.startedAt, row?.tools]);
  if (fault !== null && detail === null) return <><Crumbs name={name} /><Fault error={fault} again={load} /></>;
  if (detail === null) return <><Crumbs name={name} /><Loading /></>;
  return <Loaded name={name} detail={detail} />;
}

function Crumbs({ name }: { name: string }) {
  return <div class="head"><p class="crumbs"><a href="#/">{t("nav.overview")}</a> /</p><h1 class="mono">{name}</h1></div>;
}

function Loaded({ name, detail }: { name: string; detail: ServerDetail }) {
  const row = servers.value?.find((server) => server.name === name) ?? detail;
  const asked = route.value.query.get("tab");
  const tab: Tab = TABS.find((one) => one === asked) ?? "tools";
  const counts: Partial<Record<Tab, number>> = { tools: detail.tools.length, resources: detail.resources.length + detail.templates.length, prompts: detail.prompts.length };
  return (
    <>
      <div class="head">
        <p class="crumbs"><a href="#/">{t("nav.overview")}</a> /</p>
        <h1 class="mono">{name}</h1>
        <State state={row.state} />
        <span class="grow" />
        <Orders name={name} state={row.state} canRemove />
      </div>
      {row.reason && <p class={`notice ${row.state === "failed" ? "bad" : "warn"}`}>{row.reason}</p>}
      <Facts row={row} detail={detail} />
      {detail.instructions && <Prose text={detail.instructions} most={240} />}
      <Tabs label={t("server.tabs")} tabs={TABS.map((id) => ({ id, name: t(`tab.${id}`), ...(counts[id] === undefined ? {} : { count: counts[id]! }) }))} value={tab} onChange={(id) => replaceQuery(id === "tools" ? "" : `tab=${id}`)} />
      <Panel id={tab}>
        {tab === "tools" && <ToolList name={name} detail={detail} />}
        {tab === "resources" && <ResourceList name={name} detail={detail} />}
        {tab === "prompts" && <PromptList name={name} detail={detail} />}
        {tab === "process" && <Running detail={detail} />}
        {tab === "log" && <Log name={name} first={detail.stderr} />}
        {tab === "calls" && <Recent name={name} detail={detail} />}
        {tab === "config" && <Config detail={detail} />}
      </Panel>
    </>
  );
}

function Facts({ row, detail }: { row: Pick<ServerDetail, "startedAt" | "restarts" | "callsPerSecond" | "errorRate" | "p50" | "p99" | "transport" | "era" | "revision" | "pid" | "sandbox">; detail: ServerDetail }) {
  const info = detail.serverInfo;
  const version = [info?.title ?? info?.name, info?.version].filter((one) => typeof one === "string").join(" ");
  const facts: [string, string][] = [
    [t("fact.server"), version || "–"],
    [t("fact.revision"), [row.revision, row.era && t("era", { era: row.era })].filter(Boolean).join(" · ") || "–"],
    [t("fact.transport"), row.transport],
    [t("fact.sandbox"), row.sandbox ?? "–"],
    [t("col.up"), row.startedAt === null ? "–" : span(now.value - row.startedAt)],
    [t("col.restarts"), number(row.restarts)],
    [t("col.rate"), rate(row.callsPerSecond)],
    [t("col.errors"), row.p50 === null ? "–" : percent(row.errorRate)],
    ["p50 / p99", `${milliseconds(row.p50)} / ${milliseconds(row.p99)}`],
  ];
  return <dl class="facts">{facts.map(([name, value]) => <div key={name}><dt>{name}</dt><dd>{value}</dd></div>)}</dl>;
}

const MANY = 30;
const STARTING = new Set(["connecting", "initializing"]);

function ToolList({ name, detail }: { name: string; detail: ServerDetail }) {
  const [text, setText] = useState("");
  if (detail.tools.length === 0) return <Empty title={t("server.noTools")}>{detail.state !== "connected" && <p>{t(STARTING.has(detail.state) ? "server.starting" : "server.notUp")}</p>}</Empty>;
  const shown = detail.tools.filter((tool) => `${tool.name} ${tool.title ?? ""} ${tool.description ?? ""}`.toLowerCase().includes(text.toLowerCase()));
  return (
    <>
      {detail.tools.length > 8 && <input class="narrow" type="search" aria-label={t("server.filter")} placeholder={t("server.filter")} value={text} onInput={(event) => setText(event.currentTarget.value)} />}
      <ul class="offers">
        {shown.slice(0, 300).map((tool) => (
          <li key={tool.name} class={detail.tools.length > MANY ? "short" : ""}>
            <div class="offer-head"><a data-row class="mono strong" href={to("try", name, "tool", tool.name)}>{tool.name}</a>{tool.title && <span class="sub">{tool.title}</span>}<Hints tool={tool} /></div>
            {tool.description && <Prose text={tool.description} most={220} />}
          </li>
        ))}
      </ul>
    </>
  );
}

function ResourceList({ name, detail }: { name: string; detail: ServerDetail }) {
  if (detail.resources.length + detail.templates.length === 0) return <Empty title={t("server.noResources")} />;
  return (
    <ul class="offers">
      {detail.resources.slice(0, 300).map((resource) => (
        <li key={resource.uri}>
          <div class="offer-head"><a data-row class="strong" href={to("try", name, "resource", resource.uri)}>{resource.title ?? resource.name}</a><span class="mono small">{resource.uri}</span><span class="sub">{[resource.mimeType, resource.size && bytes(resource.size)].filter(Boolean).join(" · ")}</span></div>
          {resource.description && <Prose text={resource.description} most={220} />}
        </li>
      ))}
      {detail.templates.map((template) => (
        <li key={template.uriTemplate}>
          <div class="offer-head"><a data-row class="strong" href={to("try", name, "resource", template.uriTemplate)}>{template.title ?? template.name}</a><span class="mono small">{template.uriTemplate}</span><span class="sub">{t("server.template")}</span></div>
          {template.description && <Prose text={template.description} most={220} />}
        </li>
      ))}
    </ul>
  );
}

function PromptList({ name, detail }: { name: string; detail: ServerDetail }) {
  if (detail.prompts.length === 0) return <Empty title={t("server.noPrompts")} />;
  return (
    <ul class="offers">
      {detail.prompts.map((prompt) => (
        <li key={prompt.name}>
          <div class="offer-head"><a data-row class="mono strong" href={to("try", name, "prompt", prompt.name)}>{prompt.name}</a><span class="sub">{(prompt.arguments ?? []).map((one) => (one.required ? one.name : `${one.name}?`)).join(", ")}</span></div>
          {prompt.description && <Prose text={prompt.description} most={220} />}
        </li>
      ))}
    </ul>
  );
}

function Running({ detail }: { detail: ServerDetail }) {
  return (
    <div class="columns">
      <section>
        <h2>{t("server.processes")}</h2>
        {detail.processes.length === 0 ? <Empty title={t("server.noProcess")} /> : <ul class="processes">{roots(detail.processes).map((one) => <ProcessNode key={one.pid} process={one} all={detail.processes} depth={0} />)}</ul>}
        <h2>{t("fact.sandbox")}</h2>
        {detail.sandboxReport === null || detail.sandboxReport === undefined ? <p class="note">{detail.sandbox ?? t("server.noSandbox")}</p> : <Sandbox report={detail.sandboxReport} />}
      </section>
      <section>
        <h2>{t("server.capabilities")}</h2>
        <div class="code"><Tree value={detail.capabilities ?? {}} /></div>
        <h2>{t("server.info")}</h2>
        <div class="code"><Tree value={detail.serverInfo ?? {}} /></div>
      </section>
    </div>
  );
}

function roots(all: Process[]): Process[] {
  return all.filter((one) => !all.some((other) => other.pid === one.parent));
}

function ProcessNode({ process, all, depth }: { process: Process; all: Process[]; depth: number }) {
  const children = depth > 8 ? [] : all.filter((one) => one.parent === process.pid && one.pid !== process.pid);
  return (
    <li>
      <span class="num">{process.pid}</span> <span class="mono">{process.command}</span>
      <span class="sub">{bytes(process.rssBytes)} · {process.cpuMs === null ? "–" : milliseconds(process.cpuMs)} CPU</span>
      {children.length > 0 && <ul>{children.map((child) => <ProcessNode key={child.pid} process={child} all={all} depth={depth + 1} />)}</ul>}
    </li>
  );
}

const MOST_LINES = 1000;
/** The line that the gateway puts between two processes. */
const DIVIDER = /^── process \d+ ended, process \d+ began ──$/;

function Log({ name, first }: { name: string; first: string[] }) {
  const [lines, setLines] = useState(first);
  const [isFollowing, setFollowing] = useState(true);
  const box = useRef<HTMLDivElement>(null);
  useEffect(() => onLog(name, (server, more) => { if (server === name) setLines((old) => [...old, ...more].slice(-MOST_LINES)); }), [name]);
  useEffect(() => { if (isFollowing && box.current) box.current.scrollTop = box.current.scrollHeight; }, [lines, isFollowing]);
  const scrolled = () => { const node = box.current; if (node) setFollowing(node.scrollHeight - node.scrollTop - node.clientHeight < 24); };
  if (lines.length === 0) return <Empty title={t("server.quiet")}><p>{t("server.quiet.note")}</p></Empty>;
  return (
    <>
      <div class="toolbar"><span class="sub">{t("server.lines", { n: lines.length })}</span><span class="grow" /><label class="check"><input type="checkbox" checked={isFollowing} onChange={(event) => setFollowing(event.currentTarget.checked)} />{t("server.follow")}</label><CopyButton text={lines.join("\n")} /></div>
      <div ref={box} class="log mono" role="log" aria-label={t("tab.log")} tabIndex={0} onScroll={scrolled}>{lines.map((line, at) => <div key={at} class={DIVIDER.test(line) ? "divider" : ""}>{line || " "}</div>)}</div>
    </>
  );
}

function Recent({ name, detail }: { name: string; detail: ServerDetail }) {
  const live = liveCalls.value.filter((row) => row.server === name);
  const known = new Set(live.map((row) => row.id));
  const rows = [...live, ...detail.recentCalls.filter((row) => !known.has(row.id))].slice(0, 100);
  if (rows.length === 0) return <Empty title={t("calls.none")}><p><a href={to("try", name)}>{t("calls.none.try")}</a></p></Empty>;
  return <CallTable rows={rows} hideServer />;
}

function Config({ detail }: { detail: ServerDetail }) {
  return (
    <>
      <div class="toolbar"><span class="note">{t("server.config.note")}</span><span class="grow" /><CopyButton text={JSON.stringify(detail.config, null, 2)} /></div>
      <div class="code"><Tree value={detail.config ?? {}} /></div>
    </>
  );
}
