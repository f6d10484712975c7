/** Rate and latency of the last hour, drawn by hand from the gateway's ring. */

import { useEffect, useRef, useState } from "preact/hooks";
import { ask } from "../lib/api";
import { advance, axis, closed, line, type Series } from "../lib/chart";
import { clock, milliseconds, minute, number, rate } from "../lib/format";
import { t } from "../lib/i18n";
import { replaceQuery, route } from "../lib/route";
import { serverNames, servers, stats } from "../lib/store";
import type { Point } from "../lib/types";
import { Empty, Fault, Loading } from "../part/basics";

interface Ring {
  stepMs: number;
  points: Point[];
}

export function Charts() {
  const server = route.value.query.get("server") ?? "";
  const [ring, setRing] = useState<Ring | null>(null);
  const [fault, setFault] = useState<unknown>(null);
  const load = () => ask<Ring>(`/api/charts${server && `?server=${encodeURIComponent(server)}`}`).then((told) => { setRing(told); setFault(null); }, setFault);
  useEffect(() => { setRing(null); void load(); }, [server]);
  // The stream's numbers go on from where the ring ended, so nothing is asked twice.
  const tick = stats.value;
  useEffect(() => {
    if (tick === null) return;
    const own = server === "" ? tick : servers.value?.find((one) => one.name === server);
    if (own) setRing((old) => (old === null ? old : { ...old, points: advance(old.points, old.stepMs, tick.at, own) }));
  }, [tick]);
  return (
    <>
      <div class="head">
        <h1>{t("nav.charts")}</h1>
        <p class="summary"><span>{t("charts.hour")}</span></p>
        <label class="inline">{t("col.server")}<select value={server} onChange={(event) => replaceQuery(event.currentTarget.value === "" ? "" : `server=${encodeURIComponent(event.currentTarget.value)}`)}><option value="">{t("all")}</option>{serverNames.value.map((name) => <option key={name} value={name}>{name}</option>)}</select></label>
      </div>
      {fault !== null ? <Fault error={fault} again={load} /> : ring === null ? <Loading /> : <Drawn ring={ring} />}
    </>
  );
}

function Drawn({ ring }: { ring: Ring }) {
  const [at, setAt] = useState<number | null>(null);
  const { stepMs } = ring;
  const points = closed(ring.points);
  if (points.length < 2 || points.every((point) => point.calls === 0)) return <Empty title={t("charts.none")}><p><a href="#/try">{t("calls.none.try")}</a></p></Empty>;
  const perSecond = stepMs / 1000;
  const rates: Series[] = [
    { name: t("charts.calls"), kind: "calls", values: points.map((point) => point.calls / perSecond) },
    { name: t("charts.errors"), kind: "errors", values: points.map((point) => point.errors / perSecond) },
  ];
  const times: Series[] = [
    { name: "p99", kind: "p99", values: points.map((point) => point.p99) },
    { name: "p50", kind: "p50", values: points.map((point) => point.p50) },
  ];
  return (
    <>
      <Chart title={t("charts.rate")} series={rates} points={points} at={at} onAt={setAt} write={(value) => `${rate(value)}/s`} isFilled />
      <Chart title={t("charts.latency")} series={times} points={points} at={at} onAt={setAt} write={milliseconds} />
      <Table points={points} perSecond={perSecond} />
    </>
  );
}

const LEFT = 62;
const BOTTOM = 22;
const HEIGHT = 220;

interface ChartProps {
  title: string;
  series: Series[];
  points: Point[];
  at: number | null;
  onAt: (at: number | null) => void;
  write: (value: number) => string;
  isFilled?: boolean;
}

function Chart({ title, series, points, at, onAt, write, isFilled = false }: ChartProps) {
  const box = useRef<HTMLDivElement>(null);
  const width = useWidth(box);
  const inner = Math.max(50, width - LEFT - 8);
  const most = Math.max(...series.flatMap((one) => one.values.map((value) => value ?? 0)), 0);
  const { top, ticks } = axis(most);
  const x = (index: number) => LEFT + (index / (points.length - 1)) * inner;
  const y = (value: number) => 8 + (1 - value / top) * (HEIGHT - BOTTOM - 8);
  const point = (event: PointerEvent) => {
    const from = box.current!.getBoundingClientRect();
    onAt(Math.max(0, Math.min(points.length - 1, Math.round(((event.clientX - from.left - LEFT) / inner) * (points.length - 1)))));
  };
  const key = (event: KeyboardEvent) => {
    const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (step === undefined) return;
    event.preventDefault();
    onAt(Math.max(0, Math.min(points.length - 1, (at ?? points.length - 1) + step)));
  };
  const hours = Array.from({ length: 7 }, (_, index) => Math.round((index / 6) * (points.length - 1)));
  const shown = at ?? points.length - 1;
  return (
    <section class="chart" aria-label={title}>
      <div class="chart-head">
        <h2>{title}</h2>
        <p class="legend" aria-live="off">
          {series.map((one) => <span key={one.kind} class={one.kind}><i aria-hidden="true" />{one.name} <b class="num">{one.values[shown] === null || one.values[shown] === undefined ? "–" : write(one.values[shown]!)}</b></span>)}
          <span class="sub num">{clock(points[shown]?.at ?? 0)}</span>
        </p>
      </div>
      <div ref={box} class="chart-box" tabIndex={0} role="img" aria-label={t("charts.label", { title, most: write(most) })} onPointerMove={point} onPointerLeave={() => onAt(null)} onKeyDown={key} onBlur={() => onAt(null)}>
        <svg width={width} height={HEIGHT} aria-hidden="true">
          {ticks.map((tick) => <g key={tick}><path class="grid" d={`M${LEFT} ${y(tick)}H${LEFT + inner}`} /><text class="tick" x={LEFT - 8} y={y(tick) + 4} text-anchor="end">{write(tick)}</text></g>)}
          {hours.filter((at, index) => (width > 560 || index % 2 === 0) && hours.findIndex((other) => minute(points[other]!.at) === minute(points[at]!.at)) === index).map((index) => <text key={index} class="tick" x={x(index)} y={HEIGHT - 5} text-anchor={index === 0 ? "start" : index === points.length - 1 ? "end" : "middle"}>{minute(points[index]!.at)}</text>)}
          {series.map((one) => <g key={one.kind} class={`series ${one.kind}`}>{isFilled && <path class="area" d={line(one.values, x, y, y(0))} />}<path class="line" d={line(one.values, x, y)} /></g>)}
          {at !== null && <path class="cross" d={`M${x(at)} 8V${HEIGHT - BOTTOM}`} />}
          {at !== null && series.map((one) => one.values[at] !== null && one.values[at] !== undefined && <circle key={one.kind} class={`spot ${one.kind}`} cx={x(at)} cy={y(one.values[at]!)} r="3.5" />)}
        </svg>
      </div>
    </section>
  );
}

function useWidth(box: { current: HTMLElement | null }): number {
  const [width, setWidth] = useState(800);
  useEffect(() => {
    const watcher = new ResizeObserver(([entry]) => { if (entry) setWidth(Math.round(entry.contentRect.width)); });
    watcher.observe(box.current!);
    return () => watcher.disconnect();
  }, []);
  return width;
}

/** The same numbers for those who do not see the drawing, by the minute. */
function Table({ points, perSecond }: { points: Point[]; perSecond: number }) {
  const each = Math.max(1, Math.round(60 / perSecond));
  const rows = points.filter((_, index) => index % each === each - 1).reverse();
  return (
    <details class="chart-table">
      <summary>{t("charts.table")}</summary>
      <div class="table-box" tabIndex={0} role="region" aria-label={t("charts.table")}><table><thead><tr><th scope="col">{t("col.time")}</th><th scope="col" class="num">{t("charts.calls")}</th><th scope="col" class="num">{t("charts.errors")}</th><th scope="col" class="num">p50</th><th scope="col" class="num">p99</th></tr></thead><tbody>{rows.map((point) => <tr key={point.at}><td class="num">{minute(point.at)}</td><td class="num">{rate(point.calls / perSecond)}/s</td><td class="num">{number(point.errors)}</td><td class="num">{milliseconds(point.p50)}</td><td class="num">{milliseconds(point.p99)}</td></tr>)}</tbody></table></div>
    </details>
  );
}
