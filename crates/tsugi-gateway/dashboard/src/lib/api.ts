/** Questions and orders to the gateway. */

import { signal } from "@preact/signals";
import type { Json, Session } from "./types";

export class ApiError extends Error {
  constructor(readonly status: number, readonly code: string, message: string, readonly hint: string | null = null, readonly details: Json = null) {
    super(message);
  }
}

export const session = signal<Session | null>(null);

/** Headers that every request of ours carries. */
export function guardHeaders(): Record<string, string> {
  const csrf = session.value?.csrf;
  return csrf ? { "X-Tsugi-Csrf": csrf } : {};
}

export async function ask<T>(path: string, method = "GET", body?: Json): Promise<T> {
  const headers: Record<string, string> = { Accept: "application/json" };
  if (method !== "GET") Object.assign(headers, guardHeaders());
  if (body !== undefined) headers["Content-Type"] = "application/json";
  let response: Response;
  try {
    response = await fetch(path, { method, headers, body: body === undefined ? null : JSON.stringify(body), credentials: "same-origin" });
  } catch {
    throw new ApiError(0, "UNREACHABLE", "the gateway does not answer", null);
  }
  const answer = await read(response);
  if (response.ok) return answer as T;
  if (response.status === 401 && path !== "/api/session" && session.value?.signedIn) await refreshSession();
  throw faultOf(response.status, answer);
}

async function read(response: Response): Promise<unknown> {
  const text = await response.text();
  try {
    return text === "" ? null : JSON.parse(text);
  } catch {
    return { error: { message: text.slice(0, 300) } };
  }
}

/** Reads the several shapes in which faults come. */
export function faultOf(status: number, answer: unknown): ApiError {
  const outer = (typeof answer === "object" && answer !== null ? answer : {}) as Record<string, unknown>;
  const fault = (typeof outer.error === "object" && outer.error !== null ? outer.error : outer) as Record<string, unknown>;
  const text = [fault.message, outer.error, outer.message].find((one): one is string => typeof one === "string");
  const details = (fault.details ?? fault.data ?? null) as Json;
  // JSON-RPC has numbers for codes; the gateway puts its word, and what to try, into the data.
  const data = (typeof details === "object" && details !== null ? details : {}) as Record<string, unknown>;
  const hint = [fault.hint, data.hint, outer.hint].find((one): one is string => typeof one === "string");
  const code = typeof data.code === "string" ? data.code : fault.code ?? status;
  return new ApiError(status, String(code), text ?? `HTTP ${status}`, hint ?? null, details);
}

/** Who looks and what there is, in one question: the document asks it already while this program is on its way. */
export async function firstSession(): Promise<Session> {
  const response = await fetch("/api/session?overview").catch(() => null);
  if (response === null) throw new ApiError(0, "UNREACHABLE", "the gateway does not answer");
  const answer = await read(response);
  if (!response.ok) throw faultOf(response.status, answer);
  session.value = answer as Session;
  return session.value;
}

export async function refreshSession(): Promise<void> {
  session.value = await ask<Session>("/api/session");
}

export async function signIn(key: string): Promise<void> {
  session.value = await ask<Session>("/api/session", "POST", { key });
}

/** Where the person who has just signed out here can do so at the provider, too. */
export const providerLogout = signal<string | null>(null);

export async function signOut(): Promise<void> {
  const told = await ask<Session | null>("/api/session", "DELETE");
  providerLogout.value = told?.logout ?? null;
  await refreshSession();
}

export function isAdmin(): boolean {
  return session.value?.role === "admin";
}
