/** How much waits for a person in all projects, for the sign beside the board's name; and what they have seen already. */

import { signal } from "@preact/signals";
import { session } from "./api";
import { look, type Need, type Project } from "./pm";
import { remember, remembered } from "./settings";
import { onPm } from "./stream";

/** Things that wait, over all projects that go on. */
export const waiting = signal(0);

/** After the page is painted, and while things happen: it is counted at most this often. */
const REST = 1500;
/** Projects that are counted. */
const MOST_PROJECTS = 20;

/** Sessions of agents that did not come back, and of which the person knows. */
export const seen = signal<ReadonlySet<string>>(new Set(readSeen()));

function readSeen(): string[] {
  try {
    const kept: unknown = JSON.parse(remembered("seen") ?? "[]");
    return Array.isArray(kept) ? kept.filter((one) => typeof one === "string") : [];
  } catch {
    return [];
  }
}

export function see(sessionId: string): void {
  seen.value = new Set([...seen.value, sessionId].slice(-200));
  remember("seen", JSON.stringify([...seen.value]));
}

/** What still waits: all but the agents whose absence the person has seen. */
export function unseen(needs: Need[]): Need[] {
  return needs.filter((need) => need.kind !== "expired" || !seen.value.has(need.session_id));
}

/** How many still wait, listed or not. */
export function countOf(told: { needs: Need[]; total: number }): number {
  return told.total - (told.needs.length - unseen(told.needs).length);
}

/** Keeps the number beside the board's name true, for those who see the whole board. */
export function followNeeds(): () => void {
  const mayAsk = session.value?.pm && (session.value.role === "admin" || session.value.readOnly);
  if (!mayAsk) return () => undefined;
  let timer: ReturnType<typeof setTimeout> | null = setTimeout(count, REST);
  let isOver = false;
  async function count(): Promise<void> {
    timer = null;
    try {
      const { projects } = await look<{ projects: Project[] }>("list_projects");
      const active = projects.filter((one) => one.status === "active").slice(0, MOST_PROJECTS);
      const all = await Promise.all(active.map((one) => look<{ needs: Need[]; total: number }>("get_needs", { project_id: one.id })));
      if (!isOver) waiting.value = all.reduce((sum, told) => sum + countOf(told), 0);
    } catch {
      // The board itself says what is wrong to whoever opens it.
    }
  }
  const stop = onPm(() => { timer ??= setTimeout(count, REST); });
  return () => { isOver = true; stop(); waiting.value = 0; if (timer !== null) clearTimeout(timer); };
}
