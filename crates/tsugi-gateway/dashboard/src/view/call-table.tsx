/** Calls as rows, newest first. */

import { memo } from "../part/memo";
import { bytes, clock, milliseconds } from "../lib/format";
import { t } from "../lib/i18n";
import { to } from "../lib/route";
import type { CallRow } from "../lib/types";
import { OutcomeWord } from "../part/chip";

export function CallTable({ rows, hideServer = false, selected, query = "" }: { rows: CallRow[]; hideServer?: boolean; selected?: string | undefined; query?: string }) {
  return (
    <div class="table-box">
      <table class="calls">
        <caption class="hidden">{t("nav.calls")}</caption>
        <thead><tr><th scope="col">{t("col.time")}</th>{!hideServer && <th scope="col" class="wide-only">{t("col.server")}</th>}<th scope="col">{t("col.tool")}</th><th scope="col">{t("col.outcome")}</th><th scope="col" class="num">{t("col.duration")}</th><th scope="col" class="wide-only">{t("col.caller")}</th><th scope="col" class="wide-only">{t("col.face")}</th><th scope="col" class="num wide-only">{t("col.bytes")}</th></tr></thead>
        <tbody>{rows.map((row) => <Row key={row.id} row={row} hideServer={hideServer} isSelected={selected === String(row.id)} query={query} />)}</tbody>
      </table>
    </div>
  );
}

interface RowProps {
  row: CallRow;
  hideServer: boolean;
  isSelected: boolean;
  query: string;
}

// Rows never change once they are there, so a live table draws only the new ones.
const Row = memo(function Row({ row, hideServer, isSelected, query }: RowProps) {
  const href = `${to("calls", String(row.id))}${query === "" ? "" : `?${query}`}`;
  return (
    <tr aria-selected={isSelected || undefined} class={isSelected ? "selected" : ""}>
      <td class="num time">{clock(row.at)}</td>
      {!hideServer && <td class="mono wide-only server-cell">{row.server}</td>}
      <td><a data-row class="mono" href={href}>{row.tool ?? row.method}</a>{!hideServer && <span class="sub phone-only" aria-hidden="true">{row.server}</span>}{row.method !== "tools/call" && row.tool !== null && <span class="sub"> {row.method}</span>}</td>
      <td><OutcomeWord outcome={row.outcome} />{row.error && <span class="sub error-text" title={row.error.message}> {row.error.message}</span>}</td>
      <td class="num">{milliseconds(row.durationMs)}</td>
      <td class="wide-only">{row.client ?? row.caller ?? "–"}</td>
      <td class="wide-only sub">{row.face}</td>
      <td class="num wide-only">{bytes(row.bytes)}</td>
    </tr>
  );
});
