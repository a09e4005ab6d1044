// Numbers of a history as texts, and the scales of its charts.
import type { HistoryMark, HistoryStep } from "../../api/types";

/** duration is a time in ms; "–" if there is none. Below 0.5 ms, a history does not know more. */
export function duration(ms: number | undefined): string {
  if (!ms) return "–";
  if (ms <= 0.5) return "<0.5 ms";
  if (ms < 10) return `${ms.toFixed(1)} ms`;
  if (ms < 1000) return `${Math.round(ms)} ms`;
  return ms < 60_000 ? `${(ms / 1000).toFixed(1)} s` : `${(ms / 60_000).toFixed(1)} min`;
}

/** percent is a part of a whole: 0%, <0.1%, 2.5%, 100%. Only all of it is 100%. */
export function percent(part: number | undefined, whole: number | undefined): string {
  if (!part || !whole) return "0%";
  const p = (100 * part) / whole;
  if (p < 0.1) return "<0.1%";
  return p < 100 && p > 99.9 ? ">99.9%" : `${Number(p.toFixed(1))}%`;
}

/** nice is the least round number that is not below n, and at least the second argument. */
export function nice(n: number, least: number): number {
  if (n <= least) return least;
  const size = 10 ** Math.floor(Math.log10(n));
  return [1, 1.2, 1.6, 2, 3, 4, 5, 6, 8, 10].map((k) => k * size).find((k) => k >= n)!;
}

/** place is where on the steps, from 0 to 1, an event was; undefined: outside. */
export function place(mark: HistoryMark, steps: HistoryStep[]): number | undefined {
  if (steps.length < 2) return undefined;
  const first = Date.parse(steps[0]!.time ?? ""),
    second = Date.parse(steps[1]!.time ?? "");
  const at = (Date.parse(mark.time ?? "") - first) / ((second - first) * steps.length);
  return at >= 0 && at <= 1 ? at : undefined;
}

/** runs are the stretches of steps that have a value, as [index, value]. */
export function runs(values: (number | undefined)[]): [number, number][][] {
  const all: [number, number][][] = [];
  let open = false;
  values.forEach((v, i) => {
    if (v === undefined) {
      open = false;
      return;
    }
    if (!open) all.push([]);
    open = true;
    all[all.length - 1]!.push([i, v]);
  });
  return all;
}

/** name is the time of a step, as exact as the span needs; "–" if it has none. */
export function name(step: HistoryStep, steps: HistoryStep[]): string {
  const length = Date.parse(steps[1]?.time ?? "") - Date.parse(steps[0]?.time ?? "");
  const at = Date.parse(step.time ?? "");
  return Number.isNaN(at) ? "–" : (length >= 3_600_000 ? day : hour).format(at);
}

const hour = new Intl.DateTimeFormat("en-GB", { hour: "2-digit", minute: "2-digit" });
const day = new Intl.DateTimeFormat("en-GB", { weekday: "short", hour: "2-digit", minute: "2-digit" });
