// The order of a table's rows.

/** What rows are sorted by; undefined: a row has no such value. */
export type Value = string | number | undefined;

const words = new Intl.Collator("en", { numeric: true });
const missing = (v: Value) => v === undefined || v === "" || Number.isNaN(v);

const compare = (a: Value, b: Value) =>
  typeof a === "number" && typeof b === "number" ? a - b : words.compare(String(a), String(b));

/** sortedBy returns rows in the order of a value, or in the reverse. Rows without the value come last. */
export function sortedBy<T>(rows: T[], by: (row: T) => Value, reverse: boolean): T[] {
  const of = rows.map((row) => ({ row, value: by(row) }));
  of.sort((a, b) => {
    const order = Number(missing(a.value)) - Number(missing(b.value));
    if (order || missing(a.value)) return order;
    return reverse ? compare(b.value, a.value) : compare(a.value, b.value);
  });
  return of.map(({ row }) => row);
}

/** timeOf is a time of the API as a value; undefined: there is none. */
export const timeOf = (time: string | undefined): Value => (time ? Date.parse(time) : undefined);

/** secondsOf is a duration of the API, such as 0.250s, as a value. */
export const secondsOf = (duration: string | undefined): Value => Number.parseFloat(duration ?? "");
