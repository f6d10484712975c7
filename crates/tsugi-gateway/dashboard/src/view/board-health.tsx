/** How the database does: its size, what nobody ended yet, who works on it, and what nobody heard. */

import type { ComponentChildren } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { ago, bytes, moment, number } from "../lib/format";
import { t } from "../lib/i18n";
import { look, type State } from "../lib/pm";
import { now } from "../lib/store";
import { onPm } from "../lib/stream";
import { Fault, Loading } from "../part/basics";
import { Verify } from "./board-verify";

/** It is counted anew at most this often while things happen. */
const REST = 2000;

export function Health() {
  const [state, setState] = useState<State | null>(null);
  const [fault, setFault] = useState<unknown>(null);
  const timer = useRef<ReturnType<typeof setTimeout> | null>(null);
  const load = () => {
    timer.current = null;
    return look<State>("get_state").then((told) => { setState(told); setFault(null); }, setFault);
  };
  useEffect(() => {
    void load();
    const stop = onPm(() => { timer.current ??= setTimeout(load, REST); });
    return () => { stop(); if (timer.current !== null) clearTimeout(timer.current); };
  }, []);
  if (fault !== null) return <Fault error={fault} again={load} />;
  if (state === null) return <Loading />;
  const isBehind = state.schema !== state.schema_known;
  return (
    <>
      <dl class="facts health">
        <Fact name={t("health.size")}>{bytes(state.bytes)}</Fact>
        <Fact name={t("health.log")}>{state.log_bytes === 0 && state.engine.startsWith("Postgre") ? "–" : bytes(state.log_bytes)}</Fact>
        <Fact name={t("health.engine")}>{state.engine}</Fact>
        <Fact name={t("health.schema")} isBad={isBehind}>{isBehind ? `${state.schema} / ${state.schema_known}` : state.schema}</Fact>
        <Fact name={t("health.lease")} isBad={state.oldest_unswept_lease !== null}>{state.oldest_unswept_lease === null ? t("health.lease.none") : <span title={moment(state.oldest_unswept_lease)}>{ago(state.oldest_unswept_lease, now.value)}</span>}</Fact>
        <Fact name={t("health.notices")}>{state.notices_unheard === 0 ? t("health.notices.none") : t("health.notices.some", { n: number(state.notices_unheard), agents: number(state.notices_for) })}</Fact>
        <Fact name={t("health.sessions")}>{t("health.sessions.some", { active: number(state.active_sessions), gone: number(state.disconnected_sessions) })}</Fact>
        <Fact name={t("health.claims")} isBad={state.expired_claims > 0}>{t("health.claims.some", { live: number(state.live_claims), over: number(state.expired_claims) })}</Fact>
        <Fact name={t("health.tasks")}>{number(state.open_tasks)}</Fact>
        <Fact name={t("health.handoffs")}>{number(state.pending_handoffs)}</Fact>
      </dl>
      <h2>{t("health.processes")}</h2>
      <div class="table-box" tabIndex={0} role="region" aria-label={t("health.processes")}>
        <table>
          <thead><tr><th scope="col">{t("health.host")}</th><th scope="col" class="num">{t("health.pid")}</th><th scope="col">{t("health.version")}</th><th scope="col" class="num">{t("health.schema")}</th><th scope="col" class="num">{t("health.hosts")}</th><th scope="col">{t("health.heartbeat")}</th></tr></thead>
          <tbody>
            <tr><td>{t("health.here")}</td><td class="num">{state.pid}</td><td>tsugi {state.version}</td><td class="num">{state.schema_known}</td><td class="num">–</td><td>{t("health.now")}</td></tr>
            {state.processes.map((one) => <tr key={`${one.host} ${one.pid}`}><td>{one.host}</td><td class="num">{one.pid}</td><td>–</td><td class="num">–</td><td class="num">{one.sessions}</td><td title={moment(one.heartbeat_at)}>{ago(one.heartbeat_at, now.value)}</td></tr>)}
          </tbody>
        </table>
      </div>
      <p class="sub">{t("health.processes.note")}</p>
      <Verify />
    </>
  );
}

function Fact({ name, isBad = false, children }: { name: string; isBad?: boolean; children: ComponentChildren }) {
  return <div><dt>{name}</dt><dd class={isBad ? "bad-text" : ""}>{children}</dd></div>;
}
