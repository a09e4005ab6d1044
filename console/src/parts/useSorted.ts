// The order of a table, kept in the address.
import { useEffect, useMemo } from "preact/hooks";
import { useFilters } from "./route";
import { sortedBy, type Value } from "./sorted";

/** Sorting a table loads its list up to so many rows. */
const mostSorted = 2000;

interface Sortable<T> {
  title: string;
  by?: ((row: T) => Value) | undefined;
}

/**
 * useSorted returns the rows in the order that the address names: the title of a column, with - for the reverse. partly:
 * the list has further rows.
 */
export function useSorted<T>(columns: Sortable<T>[], rows: T[], more: (() => void) | undefined) {
  const [{ sort }, set] = useFilters(["sort"]);
  const reverse = sort.startsWith("-");
  const column = columns.find((c) => c.by && c.title === sort.slice(reverse ? 1 : 0));
  const sorted = useMemo(
    () => (column?.by ? sortedBy(rows, column.by, reverse) : rows),
    [rows, column?.title, reverse],
  );
  const partly = Boolean(column && more);
  useEffect(() => {
    if (partly && rows.length < mostSorted) more?.();
  }, [partly, rows]);
  return {
    sorted,
    partly,
    /** order is the order in the address; "": that of the list. */
    order: column ? sort : "",
    setOrder: (order: string) => set("sort", order),
    /** orderOf is the order of a column, for aria-sort. */
    orderOf: (c: Sortable<T>) => (c.title !== column?.title ? undefined : reverse ? "descending" : "ascending"),
    /** press sorts by a column, then in reverse, then not. */
    press: (c: Sortable<T>) => set("sort", c.title !== column?.title ? c.title : reverse ? "" : `-${c.title}`),
  } as const;
}
