/** What differs from its pin, and the order to accept it. */

import { signal } from "@preact/signals";
import { ask } from "./api";

export interface Piece { side: "same" | "old" | "new"; text: string }

export interface Difference {
  server: string;
  kind: string;
  name: string;
  change: "added" | "changed" | "removed";
  effect: "passed" | "refused" | "hidden";
  claimedFrom: string | null;
  old: string | null;
  new: string | null;
  findings: { rule: string; what: string; place: string; excerpt: string }[];
  members: { member: string; pieces: Piece[] }[];
}

export interface PinState { file: string | null; differences: Difference[] }

export const pins = signal<PinState | null>(null);

export async function loadPins(): Promise<void> {
  pins.value = await ask<PinState>("/api/pins");
}

/** Accepts what the page shows: the gateway refuses if it has changed since. */
export async function acceptPin(one: Difference): Promise<void> {
  const { server, kind, name } = one;
  pins.value = await ask<PinState>("/api/pins", "POST", { server, kind, name, new: one.new });
}
