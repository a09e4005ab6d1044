// The use of limits by day, as one row of bars for each limit.
import type { DailyUse } from "../../../api/types";

export interface Series {
  limit: string;
  per: string;
  of: string;
  /** The latest limit. */
  max: number;
  /** By the day's place; undefined: there was no use. */
  days: (DailyUse | undefined)[];
}

const keyOf = (u: DailyUse) => JSON.stringify([u.limit, u.per ?? "", u.capability ?? "", u.tool ?? ""]);

/** datesOf are the last days, the oldest first, as 2026-11-29. */
export const datesOf = (days: number, now: number) =>
  Array.from({ length: days }, (_, i) => new Date(now - (days - 1 - i) * 86_400_000).toISOString().slice(0, 10));

export function seriesOf(uses: readonly DailyUse[], dates: readonly string[]): Series[] {
  const all = new Map<string, Series>();
  for (const u of uses) {
    const at = dates.indexOf(u.date);
    if (at < 0) continue;
    let of = all.get(keyOf(u));
    if (!of) {
      const names = [u.capability, u.tool].filter(Boolean).join(" / ");
      of = { limit: u.limit, per: u.per ?? "", of: names, max: 0, days: dates.map(() => undefined) };
      all.set(keyOf(u), of);
    }
    of.days[at] = u;
    of.max = u.max;
  }
  return [...all.values()];
}

/** shareOf is the used part of a limit, from 0 on. */
export const shareOf = (u: { used: number; max: number } | undefined) => (u && u.max > 0 ? u.used / u.max : 0);

/** near: most of a limit is used. */
export const near = 0.8;
