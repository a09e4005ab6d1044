// What a click on a row of the list chooses.
import type { Approval } from "../../api/types";
import { inWords } from "../../parts/Untrusted";
import type { Row } from "./alike";
import { keyOf } from "./key";
import { toolInWords } from "./words";

/** approvalsOf returns the approvals of a row. */
export const approvalsOf = (r: Row) => ("group" in r ? r.group : [r.of]);

type Can = (a: Approval) => boolean;

/** partOf reports whether all of a row that can be chosen is, or some of it. */
export function partOf(chosen: ReadonlySet<string>, r: Row, can: Can): boolean | "some" {
  const all = approvalsOf(r).filter(can),
    n = all.filter((a) => chosen.has(keyOf(a))).length;
  return n === all.length || (n > 0 && "some");
}

/** choiceLabel tells rows apart: by the tool, the user and the agent, and for one approval by its id. */
export function choiceLabel(r: Row): string {
  const [a] = approvalsOf(r);
  if (!a) return "";
  const tool = toolInWords(a.tool),
    user = inWords(a.user || "no user", 80),
    agent = inWords(a.agent || "an unnamed agent", 80);
  return "group" in r
    ? `${r.group.length} calls of ${tool} for ${user}, asked by ${agent}`
    : `${tool} for ${user}, ${inWords(a.id, 60)}`;
}

/**
 * chosenBy returns the keys that are chosen after a click on the row at. The click is for all rows between from and at; of
 * their approvals, it is for those that can be chosen. If all of the clicked row are chosen already, it unchooses.
 */
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
