/** Numbers, times and sizes as people read them, in their language. */

import { lang } from "./i18n";

/** Making a formatter costs far more than using it, and a live table uses thousands in a second. */
const made = new Map<string, unknown>();
function once<T>(key: string, make: (lang: string) => T): T {
  const full = `${lang.value} ${key}`;
  if (!made.has(full)) made.set(full, make(lang.value));
  return made.get(full) as T;
}

export function number(value: number, digits = 0): string {
  return once(`number ${digits}`, (locale) => new Intl.NumberFormat(locale, { maximumFractionDigits: digits, minimumFractionDigits: digits })).format(value);
}

/** A rate: three digits that matter. */
export function rate(value: number): string {
  if (Number.isInteger(value)) return number(value);
  return number(value, value >= 100 ? 0 : value >= 10 ? 1 : 2);
}

export function percent(share: number): string {
  if (share === 0) return "0 %";
  const value = share * 100;
  return `${number(value, value >= 10 ? 0 : value >= 1 ? 1 : 2)} %`;
}

/** A duration of a call. */
export function milliseconds(value: number | null | undefined): string {
  if (value === null || value === undefined) return "–";
  if (Number.isInteger(value) && value < 1000) return `${number(value)} ms`;
  if (value < 1) return `${number(value, 2)} ms`;
  if (value < 100) return `${number(value, 1)} ms`;
  if (value < 1000) return `${number(value)} ms`;
  if (value < 60_000) return `${number(value / 1000, 2)} s`;
  return span(value);
}

/** A long time, in its two largest units. */
export function span(ms: number): string {
  const seconds = Math.max(0, Math.floor(ms / 1000));
  const units: [number, string][] = [[86400, "d"], [3600, "h"], [60, "m"], [1, "s"]];
  const from = units.findIndex(([size]) => seconds >= size);
  if (from < 0) return "0 s";
  const [size, unit] = units[from]!;
  const whole = Math.floor(seconds / size);
  const next = units[from + 1];
  const rest = next ? Math.floor((seconds % size) / next[0]) : 0;
  return next && rest > 0 && whole < 10 ? `${whole} ${unit} ${rest} ${next[1]}` : `${whole} ${unit}`;
}

export function bytes(value: number | null | undefined): string {
  if (value === null || value === undefined) return "–";
  if (value < 1024) return `${value} B`;
  if (value < 1024 * 1024) return `${number(value / 1024, 1)} KiB`;
  if (value < 1024 ** 3) return `${number(value / 1024 ** 2, 1)} MiB`;
  return `${number(value / 1024 ** 3, 2)} GiB`;
}

export function clock(at: number): string {
  return once("clock", (locale) => new Intl.DateTimeFormat(locale, { hour: "2-digit", minute: "2-digit", second: "2-digit", hourCycle: "h23" })).format(at);
}

export function minute(at: number): string {
  return once("minute", (locale) => new Intl.DateTimeFormat(locale, { hour: "2-digit", minute: "2-digit", hourCycle: "h23" })).format(at);
}

export function moment(at: number): string {
  return once("moment", (locale) => new Intl.DateTimeFormat(locale, { dateStyle: "medium", timeStyle: "medium", hourCycle: "h23" })).format(at);
}

/** How long ago, roughly. */
export function ago(at: number, now: number): string {
  const seconds = Math.round((at - now) / 1000);
  const relative = once("ago", (locale) => new Intl.RelativeTimeFormat(locale, { numeric: "auto", style: "short" }));
  const size = Math.abs(seconds);
  if (size < 45) return relative.format(Math.min(0, seconds), "second");
  if (size < 3600) return relative.format(Math.round(seconds / 60), "minute");
  if (size < 86400) return relative.format(Math.round(seconds / 3600), "hour");
  return relative.format(Math.round(seconds / 86400), "day");
}
