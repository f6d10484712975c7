/** The page's words in the reader's language. */

import { signal } from "@preact/signals";
import { remember, remembered } from "./settings";
import { en } from "../text/en";
import { ja } from "../text/ja";

export type Lang = "en" | "ja";
export type Key = keyof typeof en;

const dictionaries: Record<Lang, Record<Key, string>> = { en, ja };

function first(): Lang {
  const kept = remembered("lang");
  if (kept === "en" || kept === "ja") return kept;
  return typeof navigator !== "undefined" && navigator.language?.startsWith("ja") ? "ja" : "en";
}

export const lang = signal<Lang>(first());

export function setLang(next: Lang): void {
  lang.value = next;
  remember("lang", next);
}

/** A text with its `{blanks}` filled. */
export function t(key: Key, args: Record<string, string | number> = {}): string {
  return fill(dictionaries[lang.value][key], args);
}

/** The text for a word of the gateway, such as a state; the word itself where the page does not know it. */
export function word(prefix: string, value: string): string {
  const key = `${prefix}.${value}`;
  return Object.hasOwn(en, key) ? t(key as Key) : value;
}

export function fill(text: string, args: Record<string, string | number>): string {
  return text.replace(/\{(\w+)\}/g, (whole, name: string) => (Object.hasOwn(args, name) ? String(args[name]) : whole));
}
