/** Light, dark, or whatever the system says. */

import { effect, signal } from "@preact/signals";
import { remember, remembered } from "./settings";

export type Theme = "system" | "light" | "dark";
const THEMES: Theme[] = ["system", "light", "dark"];

const kept = remembered("theme");
export const theme = signal<Theme>(THEMES.find((one) => one === kept) ?? "system");

export function setTheme(next: Theme): void {
  theme.value = next;
  remember("theme", next);
}

export function nextTheme(): void {
  setTheme(THEMES[(THEMES.indexOf(theme.value) + 1) % THEMES.length]!);
}

/** Keeps the document's attribute in step; the style sheet does the rest. */
export function followTheme(): void {
  effect(() => {
    if (theme.value === "system") delete document.documentElement.dataset.theme;
    else document.documentElement.dataset.theme = theme.value;
  });
}
