/** Arguments of a call that is to be tried again, on their way from its page to the form. */

import type { Json } from "./types";

let waiting: { place: string; values: Json } | null = null;

const placeOf = (server: string, tool: string) => JSON.stringify([server, tool]);

/** Puts arguments aside for the form of a tool. */
export function prepare(server: string, tool: string, values: Json): void {
  waiting = { place: placeOf(server, tool), values };
}

/** The arguments for this form, once. */
export function takePrepared(server: string, tool: string): Json | undefined {
  if (waiting?.place !== placeOf(server, tool)) return undefined;
  const { values } = waiting;
  waiting = null;
  return values;
}
