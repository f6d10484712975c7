/** Which calls a person wants to see: in the address, in the question to the gateway, and on live rows. */

import type { CallRow, Outcome } from "./types";
import { OUTCOMES } from "./types";

export interface CallFilter {
  server: string;
  tool: string;
  caller: string;
  outcome: Outcome | "";
  minMs: number | null;
}

export const NO_FILTER: CallFilter = { server: "", tool: "", caller: "", outcome: "", minMs: null };

/** Whether a live row passes. Tool and caller match by a part of their name, without case. */
export function passes(row: CallRow, filter: CallFilter): boolean {
  return (
    (filter.server === "" || row.server === filter.server) &&
    contains(row.tool ?? row.method, filter.tool) &&
    contains(row.caller ?? "", filter.caller) &&
    (filter.outcome === "" || row.outcome === filter.outcome) &&
    (filter.minMs === null || row.durationMs >= filter.minMs)
  );
}

function contains(text: string, part: string): boolean {
  return part === "" || text.toLowerCase().includes(part.toLowerCase());
}

export function isFiltered(filter: CallFilter): boolean {
  return toQuery(filter) !== "";
}

/** The filter as a query, only with what is set. */
export function toQuery(filter: CallFilter): string {
  const query = new URLSearchParams();
  for (const name of ["server", "tool", "caller", "outcome"] as const) {
    if (filter[name] !== "") query.set(name, filter[name]);
  }
  if (filter.minMs !== null) query.set("minMs", String(filter.minMs));
  return query.toString();
}

/** The filter that a query means; what makes no sense is left out. */
export function fromQuery(query: URLSearchParams): CallFilter {
  const outcome = query.get("outcome") ?? "";
  const minMs = Number(query.get("minMs") ?? "");
  return {
    server: query.get("server") ?? "",
    tool: query.get("tool") ?? "",
    caller: query.get("caller") ?? "",
    outcome: OUTCOMES.find((one) => one === outcome) ?? "",
    minMs: query.get("minMs") && Number.isFinite(minMs) && minMs >= 0 ? minMs : null,
  };
}

/** New rows before old ones, each once, at most so many. */
export function prepend(rows: CallRow[], fresh: CallRow[], most: number): CallRow[] {
  const known = new Set(rows.slice(0, fresh.length * 4 + 50).map((row) => row.id));
  const added = fresh.filter((row) => !known.has(row.id)).sort((one, other) => other.at - one.at);
  return added.length === 0 ? rows : [...added, ...rows].slice(0, most);
}
