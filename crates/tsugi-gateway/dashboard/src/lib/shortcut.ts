/** Keys: `/` searches, `?` helps, `g` and a letter goes somewhere, `j` and `k` walk through a list. */

import { signal } from "@preact/signals";
import { session } from "./api";
import { go } from "./route";

export const searchOpen = signal(false);
export const helpOpen = signal(false);

const PLACES: Record<string, string> = { o: "#/", t: "#/try", c: "#/calls", h: "#/charts", a: "#/audit", b: "#/board", p: "#/pins" };
/** The address of a form that somebody asked for by keyboard and will want to write into at once. */
let wantedForm: string | null = null;

export function goToForm(href: string): void {
  wantedForm = href;
  go(href);
}

/** Whether the form at this address is the one that was wanted; it is asked once. */
export function isWantedForm(): boolean {
  const isWanted = wantedForm === location.hash;
  wantedForm = null;
  return isWanted;
}

/** How long the second key may take. */
const PATIENCE = 1200;

let isGoing = false;

export function listenForKeys(): () => void {
  const hear = (event: KeyboardEvent) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented || isWriting(event.target)) return;
    if (document.querySelector("dialog[open]") !== null) return;
    if (press(event.key)) event.preventDefault();
  };
  addEventListener("keydown", hear);
  return () => removeEventListener("keydown", hear);
}

function isWriting(target: EventTarget | null): boolean {
  return target instanceof HTMLElement && (target.isContentEditable || ["INPUT", "TEXTAREA", "SELECT"].includes(target.tagName));
}

function press(key: string): boolean {
  if (isGoing) {
    isGoing = false;
    const place = PLACES[key];
    if (place === undefined || (key === "b" && !session.value?.pm)) return false;
    go(place);
    return true;
  }
  switch (key) {
    case "/": searchOpen.value = true; return true;
    case "?": helpOpen.value = true; return true;
    case "g":
      isGoing = true;
      setTimeout(() => (isGoing = false), PATIENCE);
      return true;
    case "j": return walk(1);
    case "k": return walk(-1);
    case "n": return press_("[data-key=n]");
    default: return false;
  }
}

function press_(selector: string): boolean {
  const button = document.querySelector<HTMLElement>(selector);
  button?.click();
  return button !== null;
}

/** Moves the focus to the next or previous row. */
function walk(step: number): boolean {
  const rows = [...document.querySelectorAll<HTMLElement>("main [data-row]")];
  if (rows.length === 0) return false;
  const at = rows.findIndex((row) => row === document.activeElement);
  const next = at < 0 ? (step > 0 ? 0 : rows.length - 1) : Math.min(rows.length - 1, Math.max(0, at + step));
  rows[next]!.focus();
  rows[next]!.scrollIntoView({ block: "nearest" });
  return true;
}
