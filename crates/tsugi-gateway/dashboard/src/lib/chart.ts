/** The arithmetic of a line chart. */

import type { Point } from "./types";

export interface Series {
  name: string;
  kind: string;
  values: (number | null)[];
}

/** A round top above `most`, and the ticks up to it. */
export function axis(most: number): { top: number; ticks: number[] } {
  if (!(most > 0)) return { top: 1, ticks: [0, 1] };
  const rough = most / 4;
  const unit = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 2.5, 5, 10].map((times) => times * unit).find((one) => one >= rough - 1e-12) ?? 10 * unit;
  const count = Math.ceil(most / step - 1e-9);
  return { top: step * count, ticks: Array.from({ length: count + 1 }, (_, at) => Number((at * step).toPrecision(12))) };
}

/** A path through the values; a missing one leaves a gap. With a base it is closed to an area. */
export function line(values: (number | null)[], x: (at: number) => number, y: (value: number) => number, base?: number): string {
  let path = "";
  let from: number | null = null;
  const close = (end: number) => { if (base !== undefined && from !== null) path += `L${x(end).toFixed(1)} ${base.toFixed(1)}L${x(from).toFixed(1)} ${base.toFixed(1)}Z`; };
  values.forEach((value, at) => {
    if (value === null) {
      close(at - 1);
      from = null;
      return;
    }
    path += `${from === null ? "M" : "L"}${x(at).toFixed(1)} ${y(value).toFixed(1)}`;
    from ??= at;
  });
  close(values.length - 1);
  return path;
}

/** The points whose step is over. The running one has only part of its calls and would end every line in a cliff. */
export function closed(points: Point[]): Point[] {
  return points.slice(0, -1);
}

/** How much of the past the ring holds. */
const HOUR = 3_600_000;

/** The ring with one second more. Its steps are counted from when the gateway was started. */
export function advance(points: Point[], stepMs: number, at: number, second: { spark: number[]; errorRate: number; p50: number | null; p99: number | null }): Point[] {
  const last = points[points.length - 1];
  const start = last === undefined ? at : last.at + Math.max(0, Math.floor((at - last.at) / stepMs)) * stepMs;
  const calls = second.spark[second.spark.length - 1] ?? 0;
  const errors = calls * second.errorRate;
  if (last === undefined) return [{ at: start, calls, errors, p50: second.p50, p99: second.p99 }];
  if (start - last.at < stepMs) {
    const both = { ...last, calls: last.calls + calls, errors: last.errors + errors, p50: second.p50 ?? last.p50, p99: highest(last.p99, second.p99) };
    return [...points.slice(0, -1), both];
  }
  const next = { at: start, calls, errors, p50: second.p50, p99: second.p99 };
  return [...points, next].slice(-Math.ceil(HOUR / stepMs));
}

function highest(one: number | null, other: number | null): number | null {
  return one === null ? other : other === null ? one : Math.max(one, other);
}
