// Which approvals of the list are chosen for one answer.
import { useRef, useState } from "preact/hooks";
import { now } from "../../api/client";
import type { Approval } from "../../api/types";
import type { Row } from "./alike";
import { approvalsOf, chosenBy, partOf } from "./chosen";
import { keyOf, stateOf } from "./feed";

/** choosable reports whether a person can choose an approval: it waits, and the person may answer it here. */
export const choosable = (a: Approval) =>
  stateOf(a, now()) === "pending" && a.level !== "elsewhere" && !a.may_not_answer_why;

export interface Choice {
  /** Those that are chosen and still wait. */
  of: Approval[];
  /** can reports whether a row has something to choose, and has whether all or some of that is chosen. */
  can(r: Row): boolean;
  has(r: Row): boolean | "some";
  /** toggle chooses a row, or not any more. With range, it does so for all rows since the last one. */
  toggle(r: Row, range: boolean): void;
  clear(): void;
}

export function useChoice(items: Approval[], rows: Row[]): Choice {
  const [chosen, set] = useState<ReadonlySet<string>>(new Set());
  const last = useRef("");
  return {
    of: chosen.size ? items.filter((a) => chosen.has(keyOf(a)) && choosable(a)) : [],
    can: (r) => approvalsOf(r).some(choosable),
    has: (r) => partOf(chosen, r, choosable),
    toggle: (r, range) => {
      const at = rows.findIndex((row) => row.key === r.key),
        from = range ? rows.findIndex((row) => row.key === last.current) : at;
      last.current = r.key;
      set(chosenBy(chosen, rows, at, from < 0 ? at : from, choosable));
    },
    clear: () => set(new Set()),
  };
}
