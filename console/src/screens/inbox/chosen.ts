// What a click on a row of the list chooses.
import type { Approval } from "../../api/types";
import type { Row } from "./alike";
import { keyOf } from "./key";

/** approvalsOf returns the approvals of a row. */
export const approvalsOf = (r: Row) => ("group" in r ? r.group : [r.of]);

type Can = (a: Approval) => boolean;

/** chosenBy returns what is chosen after a click on a row: of it, or of all rows from another one to it, what can be. */
export function chosenBy(
  chosen: ReadonlySet<string>,
  rows: Row[],
  at: number,
  from: number,
  can: Can,
): ReadonlySet<string> {
  const clicked = rows[at];
  if (!clicked) return chosen;
  const to = new Set(chosen),
    on = !approvalsOf(clicked)
      .filter(can)
      .every((a) => chosen.has(keyOf(a)));
  for (const r of rows.slice(Math.min(from, at), Math.max(from, at) + 1))
    for (const a of approvalsOf(r).filter(can)) {
      if (on) to.add(keyOf(a));
      else to.delete(keyOf(a));
    }
  return to;
}
