/** Calls as they happen, narrowed down by what the reader asks for. */

import { useEffect, useState } from "preact/hooks";
import { ask } from "../lib/api";
import { type CallFilter, fromQuery, isFiltered, NO_FILTER, passes, toQuery } from "../lib/filter";
import { number } from "../lib/format";
import { t, word } from "../lib/i18n";
import { go, replaceQuery, route, to } from "../lib/route";
import { droppedCalls, link, liveCalls, serverNames } from "../lib/store";
import { type CallRow, type Outcome, OUTCOMES } from "../lib/types";
import { Empty, Fault, FilterForm } from "../part/basics";
import { Icon } from "../part/icon";
import { CallDetailPanel } from "./call-detail";
import { CallTable } from "./call-table";

/** Rows on the page; more are one press away. */
const SHOWN = 150;

export function Calls({ selected }: { selected: string | undefined }) {
  const filter = fromQuery(route.value.query);
  const query = toQuery(filter);
  const [older, setOlder] = useState<CallRow[]>([]);
  const [total, setTotal] = useState<number | null>(null);
  const [fault, setFault] = useState<unknown>(null);
  const [shown, setShown] = useState(SHOWN);
  const [frozen, setFrozen] = useState<CallRow[] | null>(null);

  const load = async (before?: CallRow) => {
    try {
      const more = before === undefined ? "" : `&before=${encodeURIComponent(String(before.id))}`;
      const told = await ask<{ calls: CallRow[]; total: number }>(`/api/calls?limit=100${query && `&${query}`}${more}`);
      setOlder((old) => (before === undefined ? told.calls : [...old, ...told.calls]));
      if (before === undefined) setTotal(told.total);
      setFault(null);
    } catch (error) {
      setFault(error);
    }
  };
  const isLive = link.value !== "lost";
  // What came while the stream was away is asked for once.
  useEffect(() => { if (isLive) void load(); }, [query, isLive]);
  useEffect(() => setShown(SHOWN), [query]);

  const source = frozen ?? liveCalls.value;
  const live = source.filter((row) => passes(row, filter));
  const known = new Set(live.map((row) => row.id));
  const rows = [...live, ...older.filter((row) => !known.has(row.id))];
  const visible = rows.slice(0, shown);
  const more = () => {
    setShown(shown + SHOWN);
    if (rows.length <= shown + SHOWN && rows.length > 0) void load(rows[rows.length - 1]);
  };
  return (
    <>
      <div class="head">
        <h1>{t("nav.calls")}</h1>
        <p class="summary">{total !== null && <span>{t("calls.total", { n: number(Math.max(total, rows.length)) })}</span>}{droppedCalls.value > 0 && <span title={t("calls.dropped.why")}>{t("calls.dropped", { n: number(droppedCalls.value) })}</span>}</p>
        <button type="button" aria-pressed={frozen !== null} onClick={() => setFrozen(frozen === null ? liveCalls.value : null)}><Icon name={frozen === null ? "pause" : "play"} />{frozen === null ? t("calls.pause") : t("calls.resume")}</button>
      </div>
      <Filter filter={filter} />
      {fault !== null && <Fault error={fault} again={() => load()} />}
      <div class={selected === undefined ? "" : "with-detail"}>
        <div>
          {rows.length === 0 ? <Nothing isNarrow={isFiltered(filter)} /> : <CallTable rows={visible} selected={selected} query={query} />}
          {rows.length > 0 && (rows.length > shown || (total !== null && total > rows.length)) && <p class="center"><button type="button" onClick={more}>{t("calls.more")}</button></p>}
        </div>
        {selected !== undefined && <CallDetailPanel id={selected} onClose={() => go(`${to("calls")}${query && `?${query}`}`)} />}
      </div>
    </>
  );
}

function Nothing({ isNarrow }: { isNarrow: boolean }) {
  if (isNarrow) return <Empty title={t("calls.noneFit")}><button type="button" onClick={() => replaceQuery("")}>{t("calls.clear")}</button></Empty>;
  return <Empty title={t("calls.none")}><p><a href="#/try">{t("calls.none.try")}</a></p></Empty>;
}

function Filter({ filter }: { filter: CallFilter }) {
  const set = (change: Partial<CallFilter>) => replaceQuery(toQuery({ ...filter, ...change }));
  return (
    <FilterForm label={t("calls.filter")} isActive={isFiltered(filter)}>
      <label><span>{t("col.server")}</span><select value={filter.server} onChange={(event) => set({ server: event.currentTarget.value })}><option value="">{t("all")}</option>{serverNames.value.map((name) => <option key={name} value={name}>{name}</option>)}</select></label>
      <label><span>{t("col.tool")}</span><input type="search" value={filter.tool} onInput={(event) => set({ tool: event.currentTarget.value })} /></label>
      <label><span>{t("col.caller")}</span><input type="search" value={filter.caller} onInput={(event) => set({ caller: event.currentTarget.value })} /></label>
      <label><span>{t("col.outcome")}</span><select value={filter.outcome} onChange={(event) => set({ outcome: event.currentTarget.value as Outcome | "" })}><option value="">{t("all")}</option>{OUTCOMES.map((one) => <option key={one} value={one}>{word("outcome", one)}</option>)}</select></label>
      <label><span>{t("calls.slower")}</span><input class="number" type="number" min="0" step="any" inputMode="decimal" value={filter.minMs ?? ""} onInput={(event) => set({ minMs: event.currentTarget.value === "" ? null : Math.max(0, Number(event.currentTarget.value)) })} /></label>
      {isFiltered(filter) && <button type="button" class="link" onClick={() => replaceQuery(toQuery(NO_FILTER))}>{t("calls.clear")}</button>}
    </FilterForm>
  );
}
