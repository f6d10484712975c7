/** Which tasks of the board a person wants to see: in the address, and in the question to the gateway. */

import { PRIORITIES, type Priority, type Status } from "./pm";
import type { JsonObject } from "./types";

export interface BoardFilter {
  text: string;
  isMine: boolean;
  assignee: string;
  label: string;
  priority: Priority | "";
  isReadyOnly: boolean;
}

export const NO_BOARD_FILTER: BoardFilter = { text: "", isMine: false, assignee: "", label: "", priority: "", isReadyOnly: false };

/** The filter that an address means; what makes no sense is left out. */
export function boardFilterOf(query: URLSearchParams): BoardFilter {
  return {
    text: query.get("text") ?? "",
    isMine: query.has("mine"),
    assignee: query.get("assignee") ?? "",
    label: query.get("label") ?? "",
    priority: PRIORITIES.find((one) => one === query.get("priority")) ?? "",
    isReadyOnly: query.has("ready"),
  };
}

/** The address that means this project, tab and filter. */
export function boardQuery(project: string, tab: string, filter: BoardFilter): string {
  const query = new URLSearchParams({ project });
  if (tab !== "columns") query.set("tab", tab);
  for (const name of ["text", "assignee", "label", "priority"] as const) if (filter[name] !== "") query.set(name, filter[name]);
  if (filter.isMine) query.set("mine", "1");
  if (filter.isReadyOnly) query.set("ready", "1");
  return query.toString();
}

export function isBoardFiltered(filter: BoardFilter): boolean {
  return boardQuery("", "columns", filter) !== boardQuery("", "columns", NO_BOARD_FILTER);
}

/** The same as arguments of `get_board`, with how many cards of each column are wanted. */
export function boardArguments(project: string, filter: BoardFilter, cards: Partial<Record<Status, number>>): JsonObject {
  return {
    project_id: project,
    ...(filter.text.trim() !== "" ? { text: filter.text.trim() } : {}),
    ...(filter.isMine ? { mine: true } : {}),
    ...(filter.assignee !== "" ? { assignee_id: filter.assignee } : {}),
    ...(filter.label !== "" ? { label: filter.label } : {}),
    ...(filter.priority !== "" ? { priority: filter.priority } : {}),
    ...(filter.isReadyOnly ? { ready_only: true } : {}),
    cards: cards as JsonObject,
  };
}
