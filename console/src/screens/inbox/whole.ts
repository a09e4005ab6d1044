// The whole call of an approval. Lists and events have an excerpt of long arguments.
import { useContext, useEffect, useMemo, useState } from "preact/hooks";
import type { Problem } from "../../api/client";
import type { Approval } from "../../api/types";
import { ApprovalsContext, keyOf } from "./feed";
import { readable, withArguments } from "./readable";

interface Whole {
  /** The approval, with all arguments as soon as they are there. */
  of: Approval;
  /** All arguments are there. */
  whole: boolean;
  /** They are requested, and not there yet. */
  reading: boolean;
  problem: Problem | undefined;
  retry(): void;
}

const atOnce = 4;

export interface Wholes {
  /** The approvals, each with all arguments as soon as they are there. */
  of: Approval[];
  /** The keys of approvals whose arguments are not there in full. */
  missing: Set<string>;
  problem: Problem | undefined;
  retry(): void;
}

/** useWholes reads all arguments of several approvals. */
export function useWholes(items: Approval[]): Wholes {
  const { fetch } = useContext(ApprovalsContext);
  const [read, setRead] = useState<ReadonlyMap<string, Approval>>(new Map());
  const [problem, setProblem] = useState<Problem>();
  const [tries, setTries] = useState(0);
  useEffect(() => {
    let over = false;
    const wanted = items.filter((a) => a.arguments_excerpt && !a.may_not_approve_why && !read.has(keyOf(a)));
    setProblem(undefined);
    const next = async () => {
      for (let a = wanted.shift(); a && !over; a = wanted.shift()) {
        const got = await fetch(a.tenant, a.id);
        if (!over) setRead((all) => new Map(all).set(keyOf(got), got));
      }
    };
    Promise.all(Array.from({ length: atOnce }, next)).catch((err: unknown) => {
      if (!over) setProblem(err as Problem);
    });
    return () => {
      over = true;
    };
  }, [tries]);
  const of = useMemo(() => items.map((a) => withArguments(a, read.get(keyOf(a)) ?? a)), [items, read]);
  const missing = useMemo(
    () => new Set(items.filter((a) => a.arguments_excerpt && !a.may_not_approve_why && !read.has(keyOf(a))).map(keyOf)),
    [items, read],
  );
  return {
    of,
    missing,
    problem,
    retry: () => setTries(tries + 1),
  };
}

/** useWhole reads all arguments of an approval, if it has an excerpt and they are wanted. */
export function useWhole(a: Approval, wanted: boolean): Whole {
  const { fetch } = useContext(ApprovalsContext);
  const [read, setRead] = useState<Approval>();
  const [problem, setProblem] = useState<Problem>();
  const [tries, setTries] = useState(0);
  const needed = wanted && Boolean(a.arguments_excerpt) && !a.may_not_approve_why;
  useEffect(() => {
    if (!needed || read) return;
    let over = false;
    setProblem(undefined);
    fetch(a.tenant, a.id).then(
      (got) => {
        if (!over) setRead(got);
      },
      (err: unknown) => {
        if (!over) setProblem(err as Problem);
      },
    );
    return () => {
      over = true;
    };
  }, [needed, keyOf(a), tries]);
  const all = read && keyOf(read) === keyOf(a) ? withArguments(a, read) : a;
  return {
    of: all,
    whole: readable(all),
    reading: needed && all === a && !problem,
    problem,
    retry: () => setTries(tries + 1),
  };
}
