/** What the page knows right now. Views read it; only the stream and the first questions write it. */

import { computed, signal } from "@preact/signals";
import { ask } from "./api";
import { prepend } from "./filter";
import { t } from "./i18n";
import type { Attention, CallRow, Kept, Overview, ServerRow, Stats } from "./types";

/** Live rows that the page keeps. */
export const MOST_CALLS = 1000;

export const overview = signal<Pick<Overview, "startedAt" | "version" | "listen"> | null>(null);
export const servers = signal<ServerRow[] | null>(null);
export const attention = signal<Attention[]>([]);
export const stats = signal<Stats | null>(null);
export const liveCalls = signal<CallRow[]>([]);
export const droppedCalls = signal(0);
export const overviewFault = signal<Error | null>(null);
/** The clock of the page, moved by the stream, so that ages on it stay true without a timer of their own. */
export const now = signal(Date.now());
export type Link = "opening" | "live" | "lost" | "closing";
export const link = signal<Link>("opening");

export const serverNames = computed(() => (servers.value ?? []).map((server) => server.name));

export function takeOverview(told: Overview): void {
  overview.value = told;
  servers.value = told.servers;
  attention.value = told.attention;
  now.value = told.now;
  overviewFault.value = null;
}

/** Nothing of what one person saw is left for the next one at this page. */
export function forget(): void {
  overview.value = null;
  servers.value = null;
  attention.value = [];
  stats.value = null;
  liveCalls.value = [];
  droppedCalls.value = 0;
}

export async function loadOverview(): Promise<void> {
  try {
    takeOverview(await ask<Overview>("/api/overview"));
  } catch (error) {
    overviewFault.value = error as Error;
  }
}

/** Batches that wait for the next frame; a hidden page draws none, so it is bounded. */
let waiting: CallRow[] = [];
let isScheduled = false;

export function addCalls(rows: CallRow[], dropped: number): void {
  droppedCalls.value += dropped;
  waiting = [...rows, ...waiting].slice(0, MOST_CALLS);
  if (isScheduled) return;
  isScheduled = true;
  requestAnimationFrame(() => {
    isScheduled = false;
    const fresh = waiting;
    waiting = [];
    liveCalls.value = prepend(liveCalls.value, fresh, MOST_CALLS);
  });
}

// --- short messages ---------------------------------------------------------------------------

export interface Toast {
  id: number;
  kind: "good" | "bad" | "note";
  text: string;
  hint?: string | null;
}

export const toasts = signal<Toast[]>([]);
let lastToast = 0;

export function toast(kind: Toast["kind"], text: string, hint: string | null = null): void {
  const id = ++lastToast;
  // The same words again take the place of the old ones.
  toasts.value = [...toasts.value.filter((one) => one.text !== text).slice(-3), { id, kind, text, hint }];
  // Bad news stays until somebody closes it.
  if (kind !== "bad") setTimeout(() => dropToast(id), hint === null ? 6000 : 12_000);
}

/** Where a change of the servers was written down, in words. */
export function keptHint(what: "add" | "order.remove", kept: Kept | undefined): string | null {
  if (kept?.file) return t(`${what}.kept`, { file: kept.file });
  return kept?.whyNot ? t(`${what}.notKept`, { why: kept.whyNot }) : null;
}

export function dropToast(id: number): void {
  toasts.value = toasts.value.filter((one) => one.id !== id);
}

export function dropGoodNews(): void {
  toasts.value = toasts.value.filter((one) => one.kind === "bad");
}

export function toastError(error: unknown): void {
  const fault = error as { message?: string; hint?: string | null };
  toast("bad", fault.message ?? String(error), fault.hint ?? null);
}
