// Which rows of a long list are in the page.

/** Piece is a row, by its place in the list, or a gap in place of rows that are out of sight. */
export type Piece = { at: number } | { gap: number; before: number };

/** keysOf returns a key for each item. Items with the same key, such as names that callers chose, get a number, too. */
export function keysOf<T>(items: readonly T[], keyOf: (item: T) => string): string[] {
  const seen = new Map<string, number>();
  return items.map((item) => {
    const key = keyOf(item),
      n = seen.get(key) ?? 0;
    seen.set(key, n + 1);
    return n ? `${key} ${n}` : key;
  });
}

/** topsOf returns where each row begins, in px, and behind the last row the height of the list. */
export function topsOf(keys: readonly string[], heights: ReadonlyMap<string, number>, estimate: number): Float64Array {
  let sum = 0,
    measured = 0;
  for (const key of keys) {
    const height = heights.get(key);
    if (height === undefined) continue;
    sum += height;
    measured++;
  }
  const other = measured ? sum / measured : estimate;
  const tops = new Float64Array(keys.length + 1);
  keys.forEach((key, at) => {
    tops[at + 1] = tops[at]! + (heights.get(key) ?? other);
  });
  return tops;
}

/** rangeOf returns the first row that ends below from, and the one behind the last that begins above to, in px. */
export function rangeOf(tops: Float64Array, from: number, to: number): [number, number] {
  return [Math.min(firstAfter(tops, from) - 1, tops.length - 1), firstAfter(tops, to)].map((at) =>
    Math.max(0, Math.min(at, tops.length - 1)),
  ) as [number, number];
}

/** firstAfter returns the place of the first top that is more than y. */
function firstAfter(tops: Float64Array, y: number): number {
  let low = 0,
    high = tops.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (tops[middle]! > y) high = middle;
    else low = middle + 1;
  }
  return low;
}

/** piecesOf returns the rows of a range and those that are held, in order, with gaps between them. */
export function piecesOf(tops: Float64Array, [from, to]: [number, number], held: readonly number[]): Piece[] {
  const count = tops.length - 1,
    shown = new Set<number>();
  for (let at = from; at < Math.min(to, count); at++) shown.add(at);
  for (const at of held) if (at >= 0 && at < count) shown.add(at);
  const pieces: Piece[] = [];
  let next = 0;
  const gap = (to: number) => {
    if (to > next) pieces.push({ gap: tops[to]! - tops[next]!, before: to });
  };
  for (const at of [...shown].sort((a, b) => a - b)) {
    gap(at);
    pieces.push({ at });
    next = at + 1;
  }
  gap(count);
  return pieces;
}
