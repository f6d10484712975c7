/** One call: where its time went, and its failure as people read it. */

import { useEffect, useState } from "preact/hooks";
import { ask, isAdmin } from "../lib/api";
import { bytes, milliseconds, moment } from "../lib/format";
import { t, word } from "../lib/i18n";
import { prepare } from "../lib/again";
import { go, to } from "../lib/route";
import { isObject } from "../lib/schema";
import type { CallDetail, Stage } from "../lib/types";
import { Fault, IconButton, Loading } from "../part/basics";
import { OutcomeWord } from "../part/chip";
import { Tree } from "../part/tree";

export function CallDetailPanel({ id, onClose }: { id: string; onClose: () => void }) {
  const [detail, setDetail] = useState<CallDetail | null>(null);
  const [fault, setFault] = useState<unknown>(null);
  useEffect(() => {
    setDetail(null);
    setFault(null);
    ask<CallDetail>(`/api/calls/${encodeURIComponent(id)}`).then(setDetail, setFault);
  }, [id]);
  return (
    <aside class="detail" aria-label={t("call")}>
      <div class="dialog-head"><h2>{t("call")} <span class="mono sub">{id}</span></h2><IconButton icon="close" label={t("close")} onClick={onClose} /></div>
      {fault !== null ? <Fault error={fault} /> : detail === null ? <Loading /> : <Loaded detail={detail} />}
    </aside>
  );
}

function Loaded({ detail }: { detail: CallDetail }) {
  const facts: [string, string][] = [
    [t("col.time"), moment(detail.at)],
    [t("col.method"), detail.method],
    [t("col.caller"), detail.caller ?? "–"],
    [t("col.client"), detail.client ?? "–"],
    [t("col.face"), detail.face],
    [t("col.duration"), milliseconds(detail.durationMs)],
    [t("col.bytes"), bytes(detail.bytes)],
    [t("col.request"), String(detail.requestId ?? "–")],
  ];
  return (
    <>
      <p class="call-title"><a class="mono" href={to("servers", detail.server)}>{detail.server}</a> / {detail.tool === null ? detail.method : <a class="mono strong" href={to("try", detail.server, "tool", detail.tool)}>{detail.tool}</a>} <OutcomeWord outcome={detail.outcome} /></p>
      {detail.error && (
        <div class="fault">
          <p class="fault-text">{detail.error.message}</p>
          {detail.error.hint && <p class="fault-hint">{detail.error.hint}</p>}
          {isObject(detail.error.details) && detail.error.details.outcome === "unknown" && <p class="fault-hint">{t("call.unknown")}</p>}
          {detail.error.code === "SERVER_CRASHED" && isAdmin() && <p class="fault-hint"><a href={`${to("servers", detail.server)}?tab=log`}>{t("call.log", { name: detail.server })}</a></p>}
          <p class="fault-code mono">{detail.error.code}</p>
          {detail.error.details !== undefined && detail.error.details !== null && <div class="code"><Tree value={detail.error.details} /></div>}
        </div>
      )}
      <Payload detail={detail} />
      <h3>{t("call.timeline")}</h3>
      {detail.timeline.length === 0 ? <p class="note">{t("call.noTimeline")}</p> : <Timeline stages={detail.timeline} total={detail.durationMs} />}
      <dl class="facts tight">{facts.map(([name, value]) => <div key={name}><dt>{name}</dt><dd>{value}</dd></div>)}</dl>
    </>
  );
}

/** What the call was given and what it returned, where that was recorded. */
function Payload({ detail }: { detail: CallDetail }) {
  const { arguments: given, result, tool } = detail;
  const isRecorded = (given ?? null) !== null || (result ?? null) !== null;
  if (!isRecorded) return <p class="note small">{t(detail.record === "off" ? "call.private" : "call.onlyErrors")}</p>;
  const again = () => {
    if (tool === null) return;
    prepare(detail.server, tool, given ?? {});
    go(to("try", detail.server, "tool", tool));
  };
  return (
    <>
      {(given ?? null) !== null && <><h3>{t("call.arguments")}</h3><div class="code"><Tree value={given!} /></div></>}
      {(result ?? null) !== null && <><h3>{t("call.result")}</h3><div class="code"><Tree value={result!} /></div></>}
      {tool !== null && detail.method === "tools/call" && <p class="actions"><button type="button" onClick={again}>{t("call.again")}</button></p>}
    </>
  );
}

const WIDTH = 1000;

function Timeline({ stages, total }: { stages: Stage[]; total: number }) {
  const end = Math.max(total, ...stages.map((stage) => stage.startMs + stage.durationMs), 0.001);
  return (
    <ol class="timeline">
      {stages.map((stage, at) => (
        <li key={at}>
          <span class="stage">{word("stage", stage.stage)}</span>
          <svg viewBox={`0 0 ${WIDTH} 10`} preserveAspectRatio="none" aria-hidden="true"><rect class={`bar ${stage.stage}`} x={(stage.startMs / end) * WIDTH} width={Math.max(4, (stage.durationMs / end) * WIDTH)} y="0" height="10" /></svg>
          <span class="num">{milliseconds(stage.durationMs)}</span>
          {stage.note && <span class="stage-note">{stage.note}</span>}
        </li>
      ))}
    </ol>
  );
}
