// The cells of a matrix as rows and columns.
import type { Decision } from "../../../api/types";

export interface Caller {
  user: string;
  agent: string;
}

export interface Row {
  tool: string;
  unlisted: boolean;
  /** By the column's place. */
  cells: (Decision | undefined)[];
}

const keyOf = (c: { user?: string; agent?: string }) => JSON.stringify([c.user ?? "", c.agent ?? ""]);

/** matrixOf groups the decisions of all pages. A caller that only later pages name gets a column, too. */
export function matrixOf(decisions: readonly Decision[]): { callers: Caller[]; rows: Row[] } {
  const places = new Map<string, number>(),
    rows = new Map<string, Row>(),
    callers: Caller[] = [];
  for (const d of decisions) {
    const key = keyOf(d);
    let at = places.get(key);
    if (at === undefined) {
      at = callers.push({ user: d.user ?? "", agent: d.agent ?? "" }) - 1;
      places.set(key, at);
    }
    let row = rows.get(d.tool);
    if (!row) {
      row = { tool: d.tool, unlisted: Boolean(d.unlisted), cells: [] };
      rows.set(d.tool, row);
    }
    row.cells[at] = d;
  }
  return { callers, rows: [...rows.values()] };
}

/** quoted is a name, in quotes if it could be taken for several ones. */
const quoted = (name: string) => (/[,"“”]|^\s|\s$/.test(name) ? JSON.stringify(name) : name);

/** callerOf names a caller in words. No two callers have the same. */
export const callerOf = (c: Caller) =>
  [c.user && `user ${quoted(c.user)}`, c.agent && `agent ${quoted(c.agent)}`].filter(Boolean).join(", ") || "anyone";
