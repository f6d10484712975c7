/** The audit log: whether it can be written and is signed, and its last lines. */

import { useEffect, useState } from "preact/hooks";
import { ask } from "../lib/api";
import { clock, milliseconds, number } from "../lib/format";
import { t } from "../lib/i18n";
import { replaceQuery, route } from "../lib/route";
import { Empty, Fault, Loading } from "../part/basics";
import { Icon } from "../part/icon";

interface AuditLine {
  seq: number;
  time: string;
  kind: string;
  identity?: string;
  address?: string;
  action?: string;
  server?: string;
  name?: string;
  outcome?: string;
  code?: string;
  ms?: number;
  count?: number;
  decision?: { by: string };
}

interface AuditLook {
  file: string;
  seq: number;
  isAvailable: boolean;
  backlog: number;
  lost: number;
  checkpoint: { seq: number; time: string; key: string } | null;
  lines: AuditLine[];
}

/** The beginnings of kinds that people look for. */
const KINDS = ["call", "denied", "signin", "server", "key", "config", "audit"];

export function Audit() {
  const query = route.value.query;
  const [kind, identity] = [query.get("kind") ?? "", query.get("identity") ?? ""];
  const [look, setLook] = useState<AuditLook | null>(null);
  const [fault, setFault] = useState<unknown>(null);
  const asked = new URLSearchParams({ ...(kind && { kind }), ...(identity && { identity }) }).toString();
  const load = async () => {
    try {
      setLook(await ask<AuditLook>(`/api/audit?${asked}`));
      setFault(null);
    } catch (error) {
      setFault(error);
    }
  };
  useEffect(() => { void load(); }, [asked]);
  const narrow = (change: Record<string, string>) => {
    const next = Object.entries({ kind, identity, ...change }).filter(([, value]) => value !== "");
    replaceQuery(new URLSearchParams(next).toString());
  };
  return (
    <>
      <div class="head">
        <h1>{t("nav.audit")}</h1>
        {look !== null && <p class="summary"><span>{t("audit.lines", { n: number(look.seq) })}</span>{look.checkpoint !== null && <span title={look.checkpoint.key}>{t("audit.signed", { n: number(look.checkpoint.seq), when: clock(Date.parse(look.checkpoint.time)) })}</span>}</p>}
        <button type="button" onClick={() => load()}><Icon name="restart" />{t("audit.again")}</button>
      </div>
      {look !== null && !look.isAvailable && <p class="notice">{t("audit.unavailable")}</p>}
      {look !== null && look.lost > 0 && <p class="notice">{t("audit.lost", { n: number(look.lost) })}</p>}
      <form class="filter" role="search" aria-label={t("audit.filter")} onSubmit={(event) => event.preventDefault()}>
        <label><span>{t("audit.kind")}</span><select value={kind} onChange={(event) => narrow({ kind: event.currentTarget.value })}><option value="">{t("all")}</option>{KINDS.map((one) => <option key={one} value={one}>{one}</option>)}</select></label>
        <label><span>{t("audit.identity")}</span><input type="search" value={identity} placeholder="key:ann" onChange={(event) => narrow({ identity: event.currentTarget.value })} /></label>
      </form>
      {fault !== null && <Fault error={fault} again={() => load()} />}
      {look === null ? fault === null && <Loading /> : look.lines.length === 0 ? <Empty title={t("audit.none")} /> : <Lines lines={look.lines} />}
      {look !== null && <p class="sub">{t("audit.verify")} <code>tsugi audit verify</code> <span class="mono">{look.file}</span></p>}
    </>
  );
}

function Lines({ lines }: { lines: AuditLine[] }) {
  return (
    <div class="table-box">
      <table class="calls">
        <caption class="hidden">{t("nav.audit")}</caption>
        <thead><tr><th scope="col" class="num wide-only">{t("audit.seq")}</th><th scope="col">{t("col.time")}</th><th scope="col">{t("audit.kind")}</th><th scope="col">{t("audit.identity")}</th><th scope="col">{t("audit.what")}</th><th scope="col">{t("col.outcome")}</th><th scope="col" class="num wide-only">{t("col.duration")}</th></tr></thead>
        <tbody>{lines.map((line) => <Row key={line.seq} line={line} />)}</tbody>
      </table>
    </div>
  );
}

function Row({ line }: { line: AuditLine }) {
  const what = [line.server, line.name].filter(Boolean).join("/");
  const outcome = [line.outcome, line.code, line.decision?.by].filter(Boolean).join(" ");
  return (
    <tr>
      <td class="num wide-only">{line.seq}</td>
      <td class="num time">{clock(Date.parse(line.time))}</td>
      <td class="mono">{line.kind}</td>
      <td class="mono">{line.identity ?? line.address ?? "–"}{line.count !== undefined && line.count > 1 && <span class="sub"> ×{line.count}</span>}</td>
      <td><span class="mono">{what}</span> <span class="sub">{line.action}</span></td>
      <td>{outcome}</td>
      <td class="num wide-only">{line.ms === undefined ? "" : milliseconds(line.ms)}</td>
    </tr>
  );
}
