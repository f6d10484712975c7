/** The one stream of events that keeps the page live. */

import { signal } from "@preact/signals";
import { addCalls, attention, link, loadOverview, now, servers, stats } from "./store";
import { refreshSession } from "./api";
import type { Attention, CallRow, ServerRow, Stats } from "./types";

export interface PmEvent {
  project: string | null;
  entity: string;
  id: string;
  version: number | null;
  at: number;
  agent: string | null;
  action: string;
}

type PmListener = (event: PmEvent) => void;
type LogListener = (server: string, lines: string[]) => void;

const pmListeners = new Set<PmListener>();
const logListeners = new Set<LogListener>();
const logServer = signal<string | null>(null);
let source: EventSource | null = null;
let retry: ReturnType<typeof setTimeout> | null = null;
let tries = 0;

export function onPm(listener: PmListener): () => void {
  pmListeners.add(listener);
  return () => pmListeners.delete(listener);
}

/** Follows one server's log; the stream is opened anew with its name. */
export function onLog(server: string, listener: LogListener): () => void {
  logListeners.add(listener);
  if (logServer.value !== server) {
    logServer.value = server;
    openStream();
  }
  return () => {
    logListeners.delete(listener);
    if (logListeners.size > 0) return;
    logServer.value = null;
    openStream();
  };
}

export function closeStream(): void {
  if (retry !== null) clearTimeout(retry);
  retry = null;
  source?.close();
  source = null;
}

export function openStream(): void {
  closeStream();
  const log = logServer.value;
  const opened = new EventSource(log === null ? "/api/events" : `/api/events?log=${encodeURIComponent(log)}`);
  source = opened;
  opened.onopen = () => {
    // What happened while we were away is asked for once.
    if (link.value === "lost" || link.value === "closing") void loadOverview();
    link.value = "live";
    tries = 0;
  };
  opened.onerror = () => lost(opened);
  hear<{ servers: ServerRow[]; attention?: Attention[] }>(opened, "servers", (told) => {
    servers.value = told.servers;
    if (told.attention) attention.value = told.attention;
  });
  hear<{ calls: CallRow[]; dropped?: number }>(opened, "calls", (told) => addCalls(told.calls, told.dropped ?? 0));
  hear<{ now: number; all: Omit<Stats, "at"> | null }>(opened, "stats", (told) => {
    if (told.all !== null) stats.value = { ...told.all, at: told.now };
  });
  hear<{ server: string; lines: string[] }>(opened, "log", (told) => logListeners.forEach((listener) => listener(told.server, told.lines)));
  hear<PmEvent>(opened, "pm", (told) => pmListeners.forEach((listener) => listener(told)));
  hear<unknown>(opened, "bye", () => {
    link.value = "closing";
    // It may be that only the sign-in ended.
    void refreshSession().catch(() => undefined);
  });
}

/** How long a page that nobody sees stays connected. */
const HIDDEN_FOR = 60_000;

/** A page in the background lets its stream go, so that many tabs cost nothing, and catches up when it is looked at. */
export function followVisibility(): () => void {
  let timer: ReturnType<typeof setTimeout> | null = null;
  const look = () => {
    if (timer !== null) clearTimeout(timer);
    timer = null;
    if (document.hidden) {
      timer = setTimeout(() => { closeStream(); link.value = "lost"; }, HIDDEN_FOR);
    } else if (source === null) {
      openStream();
    }
  };
  document.addEventListener("visibilitychange", look);
  return () => {
    document.removeEventListener("visibilitychange", look);
    if (timer !== null) clearTimeout(timer);
  };
}

function hear<T>(from: EventSource, name: string, listener: (told: T) => void): void {
  from.addEventListener(name, (event) => {
    now.value = Date.now();
    try {
      listener(JSON.parse((event as MessageEvent<string>).data) as T);
    } catch (error) {
      console.warn(`event ${name} was not understood`, error);
    }
  });
}

/** The browser tries again by itself, except after an answer that is no stream: then we do, more and more slowly. */
function lost(from: EventSource): void {
  if (source !== from) return;
  if (link.value !== "closing") link.value = "lost";
  if (from.readyState !== EventSource.CLOSED) return;
  tries += 1;
  retry = setTimeout(() => void comeBack(), Math.min(1000 * 2 ** tries, 15_000));
}

async function comeBack(): Promise<void> {
  try {
    await refreshSession();
    openStream();
  } catch {
    if (source !== null) lost(source);
  }
}
