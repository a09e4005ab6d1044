// The rows of a long list that are in sight, and space in place of the others.
import type { RefObject } from "preact";
import { useEffect, useLayoutEffect, useMemo, useReducer, useRef } from "preact/hooks";
import { type Piece, piecesOf, rangeOf, topsOf } from "./pieces";

/** Lists of at most so many rows are in the page as a whole, unless a list says otherwise. */
const few = 40;
/** Rows that begin or end so many px out of sight are in the page, too. */
const margin = 500;
/** So many turns in a row find the rows in sight: their heights change what is in sight. */
const mostTurns = 10;

export interface Virtual {
  pieces: Piece[];
  /** all of the list is in the page. */
  all: boolean;
  /** focus moves the focus into a row, and scrolls to it. */
  focus(at: number): void;
  /** current is the place of the row that has the focus, or -1. */
  current(): number;
}

const rowOf = (e: Element | null) => (e instanceof HTMLElement ? e.closest<HTMLElement>("[data-row]") : null);

/**
 * useVirtual returns the pieces of a list that scrolls with the page. The box is the parent of the rows. A row has its
 * key as data-row, and no margin. The row that had the focus last stays in the page.
 */
export function useVirtual(
  box: RefObject<HTMLElement | null>,
  keys: string[],
  estimate: number,
  onEnd?: () => void,
  whole = few,
): Virtual {
  const [, render] = useReducer((n: number) => n + 1, 0);
  const heights = useRef(new Map<string, number>());
  const range = useRef<[number, number]>([0, whole]);
  const held = useRef<string | undefined>(undefined);
  const wanted = useRef<string | undefined>(undefined);
  const places = useMemo(() => new Map(keys.map((key, at) => [key, at])), [keys]);
  const tops = useRef<Float64Array>(new Float64Array(1));
  const all = keys.length <= whole;
  const rows = () => [...(box.current?.children ?? [])].filter((e) => e instanceof HTMLElement && e.dataset["row"]);
  const place = (key: string | undefined) => (key === undefined ? -1 : (places.get(key) ?? -1));

  if (!all) tops.current = topsOf(keys, heights.current, estimate);
  const pieces = all
    ? keys.map((_, at): Piece => ({ at }))
    : piecesOf(tops.current, range.current, [place(held.current), place(wanted.current)]);

  const turns = useRef(0);
  const look = useRef(() => {});
  look.current = () => {
    if (!box.current || all) return;
    const top = box.current.getBoundingClientRect().top;
    const now = rangeOf(tops.current, -top - margin, window.innerHeight - top + margin);
    const same = now[0] === range.current[0] && now[1] === range.current[1];
    turns.current = same ? 0 : turns.current + 1;
    if (same || turns.current > mostTurns) return;
    range.current = now;
    render(0);
  };
  useEffect(() => {
    const moved = () => {
      turns.current = 0;
      look.current();
    };
    const focused = (e: FocusEvent) => {
      held.current = rowOf(e.target as Element)?.dataset["row"] ?? held.current;
    };
    const at = box.current;
    window.addEventListener("scroll", moved, { passive: true });
    window.addEventListener("resize", moved);
    at?.addEventListener("focusin", focused);
    return () => {
      window.removeEventListener("scroll", moved);
      window.removeEventListener("resize", moved);
      at?.removeEventListener("focusin", focused);
    };
  }, [Boolean(box.current)]);

  // Heights are measured as rows come, and when they change.
  const observer = useRef<ResizeObserver | undefined>(undefined);
  const seen = useRef(new Set<Element>());
  useLayoutEffect(() => {
    if (all) return;
    observer.current ??= new ResizeObserver((entries) => {
      let changed = false;
      for (const { target } of entries) {
        const key = (target as HTMLElement).dataset["row"],
          height = target.getBoundingClientRect().height;
        if (!key || !target.isConnected || Math.abs((heights.current.get(key) ?? -1) - height) < 0.5) continue;
        heights.current.set(key, height);
        changed = true;
      }
      if (changed) render(0);
    });
    const now = new Set<Element>(rows());
    for (const e of seen.current) if (!now.has(e)) observer.current.unobserve(e);
    for (const e of now) if (!seen.current.has(e)) observer.current.observe(e);
    seen.current = now;
    look.current();
  });
  useEffect(() => () => observer.current?.disconnect(), []);
  // Heights of rows that are gone are forgotten.
  if (heights.current.size > 2 * keys.length + few) {
    for (const key of heights.current.keys()) if (!places.has(key)) heights.current.delete(key);
  }

  useLayoutEffect(() => {
    if (wanted.current === undefined) return;
    const row = rows().find((e) => (e as HTMLElement).dataset["row"] === wanted.current);
    wanted.current = undefined;
    const target = row?.querySelector<HTMLElement>('[tabindex="0"], a[href], button') ?? row;
    if (!(target instanceof HTMLElement)) return;
    target.focus({ preventScroll: true });
    target.scrollIntoView({ block: "nearest" });
  });
  const end = all || range.current[1] >= keys.length;
  useEffect(() => {
    if (end) onEnd?.();
  }, [end, keys.length, onEnd !== undefined]);
  return {
    pieces,
    all,
    focus: (at) => {
      wanted.current = keys[at];
      if (wanted.current !== undefined) render(0);
    },
    current: () => {
      const row = rowOf(document.activeElement);
      return row && box.current?.contains(row) ? place(row.dataset["row"]) : -1;
    },
  };
}
