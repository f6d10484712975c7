/** Every server at a glance; what needs somebody comes first. */

import { useEffect, useState } from "preact/hooks";
import { ask, session } from "../lib/api";
import { clientLine } from "../lib/copy";
import { milliseconds, number, percent, rate, span } from "../lib/format";
import { t, word } from "../lib/i18n";
import { whyNotOrder } from "../lib/rights";
import { to } from "../lib/route";
import { attention, loadOverview, now, overview, overviewFault, servers, stats } from "../lib/store";
import type { ServerRow } from "../lib/types";
import { CopyButton, Empty, Fault, Loading, refusing } from "../part/basics";
import { State } from "../part/chip";
import { Icon } from "../part/icon";
import { Spark } from "../part/spark";
import { AddServer } from "./add-server";
import { Orders } from "./order";

export function Overview() {
  const [isAdding, setAdding] = useState(false);
  return (
    <>
      <div class="head">
        <h1>{t("nav.overview")}</h1>
        <Summary />
        <button type="button" data-key="n" class="primary" {...refusing(whyNotOrder(), () => setAdding(true))}><Icon name="plus" />{t("add")}</button>
      </div>
      {overviewFault.value && servers.value === null ? <Fault error={overviewFault.value} again={loadOverview} /> : <Body />}
      {isAdding && <AddServer onClose={() => setAdding(false)} />}
    </>
  );
}

function Summary() {
  const all = servers.value;
  if (all === null) return <p class="summary" />;
  const up = all.filter((server) => server.state === "connected").length;
  const total = stats.value;
  return (
    <p class="summary">
      <b>{t("overview.up", { up, all: all.length })}</b>
      {total && <span>{t("overview.rate", { rate: rate(total.callsPerSecond) })}</span>}
      {total && total.errorRate > 0 && <span class="bad-text">{t("overview.errors", { share: percent(total.errorRate) })}</span>}
      {overview.value && <span>{t("overview.since", { span: span(now.value - overview.value.startedAt) })}</span>}
    </p>
  );
}

function Body() {
  const all = servers.value;
  if (all === null) return <Loading />;
  return (
    <>
      <Needs />
      {all.length === 0 ? <Empty title={t("overview.none")}><p>{session.value?.allowAdd ? t("overview.none.add") : t("overview.none.file")}</p><pre class="code">{`servers:\n  - name: time\n    command: uvx\n    args: ["mcp-server-time"]`}</pre></Empty> : <Servers all={all} />}
      {all.length > 0 && all.every(isUntouched) && <Next />}
    </>
  );
}

/** Whether nothing of it was called lately. */
function isUntouched(server: ServerRow): boolean {
  return server.p50 === null && server.callsPerSecond === 0;
}

/** What to do on the first visit, when there is nothing to see yet. */
function Next() {
  const [total, setTotal] = useState<number | null>(null);
  useEffect(() => { ask<{ total: number }>("/api/calls?limit=1").then((told) => setTotal(told.total), () => undefined); }, []);
  if (total !== 0) return null;
  const line = clientLine(location.origin, session.value?.authRequired ?? false);
  return (
    <section class="next" aria-labelledby="next">
      <h2 id="next">{t("overview.next")}</h2>
      <p><a href={to("try")}>{t("calls.none.try")}</a> {t("overview.next.try")}</p>
      <p>{t("overview.next.client")}</p>
      <div class="copy-text"><pre class="code" tabIndex={0}>{line}</pre><CopyButton text={line} /></div>
      <p class="sub">{t("overview.next.others")} <code>tsugi serve --print-clients</code></p>
    </section>
  );
}

function Needs() {
  if (attention.value.length === 0) return null;
  return (
    <section class="needs" aria-labelledby="needs">
      <h2 id="needs">{t("overview.attention")}</h2>
      <ul>
        {attention.value.map((one, at) => (
          <li key={at} class={one.kind}>
            <a href={to("servers", one.server)} class="mono">{one.server}</a>
            <span title={one.text}>{one.text}</span>
          </li>
        ))}
      </ul>
    </section>
  );
}

const RANK: Record<string, number> = { failed: 0, "needs-sign-in": 1, reconnecting: 1, connecting: 2, initializing: 2, draining: 3, connected: 4, disconnected: 5 };

function Servers({ all }: { all: ServerRow[] }) {
  const sorted = [...all].sort((one, other) => (RANK[one.state] ?? 3) - (RANK[other.state] ?? 3));
  return (
    <section aria-labelledby="servers">
      <h2 id="servers" class="hidden">{t("overview.servers")}</h2>
      <div class="server-head" aria-hidden="true">
        <span>{t("col.server")}</span><span>{t("col.state")}</span><span class="num">{t("col.up")}</span><span class="num">{t("col.restarts")}</span><span class="num">{t("col.rate")}</span><span>{t("col.minute")}</span><span class="num">{t("col.errors")}</span><span class="num">p50</span><span class="num">p99</span><span />
      </div>
      <ul class="server-list">{sorted.map((server) => <Row key={server.name} server={server} />)}</ul>
    </section>
  );
}

function Row({ server }: { server: ServerRow }) {
  const isUp = server.state === "connected";
  return (
    <li class="server-row">
      <div class="server-name">
        <a data-row href={to("servers", server.name)}>{server.name}</a>
        <span class="sub">{[server.transport, [server.era && word("eraWord", server.era), server.revision].filter(Boolean).join(" "), isUp && (server.tools === 1 ? t("n.tool") : t("n.tools", { n: server.tools }))].filter(Boolean).join(" · ")}</span>
      </div>
      <div class="server-state"><State state={server.state} />{server.reason && <span class="reason" title={server.reason}>{server.reason}</span>}</div>
      <Number label={t("col.up")} value={server.startedAt === null ? "–" : span(now.value - server.startedAt)} />
      <Number label={t("col.restarts")} value={number(server.restarts)} tone={server.restarts > 0 ? "warn-text" : ""} />
      <Number label={t("col.rate")} value={rate(server.callsPerSecond)} />
      <div class="server-spark"><Spark values={server.spark} label={t("spark", { name: server.name, rate: rate(server.callsPerSecond) })} /></div>
      <Number label={t("col.errors")} value={isUntouched(server) ? "–" : percent(server.errorRate)} tone={server.errorRate > 0.01 ? "bad-text" : ""} />
      <Number label="p50" value={milliseconds(server.p50)} />
      <Number label="p99" value={milliseconds(server.p99)} />
      <Orders name={server.name} state={server.state} />
    </li>
  );
}

function Number({ label, value, tone = "" }: { label: string; value: string; tone?: string }) {
  return <div class={`num ${tone}`}><span class="num-label">{label}</span>{value}</div>;
}
