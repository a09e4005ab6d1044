// A list of any length: only the rows in sight are in the page.
import type { ComponentChildren, RefObject } from "preact";
import { useMemo, useRef } from "preact/hooks";
import { useKeys } from "./keys";
import { keysOf } from "./pieces";
import { useVirtual } from "./virtual";

/** Rows is a list on the screen, for keys that act on a row. */
export interface Rows {
  /** current is the place of the row that has the focus, or -1. */
  current(): number;
  /** focus moves the focus into a row, and scrolls to it. */
  focus(at: number): void;
}

interface Props<T> {
  label: string;
  items: T[];
  /** keyOf returns a text that no other item has. */
  keyOf(item: T): string;
  row(item: T, at: number): ComponentChildren;
  /** The height of a row in px, until rows were measured. */
  estimate?: number;
  /** How many rows there are, if not all have been loaded. */
  total?: number | undefined;
  /** Loads further rows. It is called when the last row comes near. */
  onEnd?: (() => void) | undefined;
  rows?: RefObject<Rows | null>;
  /** A list of at most so many rows is in the page as a whole. */
  whole?: number;
}

/**
 * VirtualList shows rows of different heights, which scroll with the page. j and k move the focus. The space between
 * rows is a padding of theirs.
 */
export function VirtualList<T>({ label, items, keyOf, row, estimate = 120, total, onEnd, rows, whole }: Props<T>) {
  const box = useRef<HTMLDivElement>(null);
  const keys = useMemo(() => keysOf(items, keyOf), [items]);
  const shown = useVirtual(box, keys, estimate, onEnd, whole);
  if (rows) rows.current = shown;
  const move = (by: number) => {
    const at = shown.current();
    if (at >= 0) shown.focus(Math.min(Math.max(at + by, 0), items.length - 1));
    else if (items.length) shown.focus(by > 0 ? 0 : items.length - 1);
  };
  useKeys({ j: () => move(1), k: () => move(-1) });
  if (items.length === 0) return null;
  return (
    <div class="rows" role="list" aria-label={label} ref={box}>
      {shown.pieces.map((p) =>
        "gap" in p ? (
          <div key={`gap ${p.before}`} class="gap" aria-hidden="true" style={{ height: `${p.gap}px` }} />
        ) : (
          <div
            key={"row " + keys[p.at]}
            role="listitem"
            data-row={keys[p.at]}
            aria-setsize={total ?? items.length}
            aria-posinset={p.at + 1}
          >
            {row(items[p.at]!, p.at)}
          </div>
        ),
      )}
    </div>
  );
}
