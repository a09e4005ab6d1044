// Lists of approvals that wait, page by page, and what happens to them meanwhile.
import { useCallback, useEffect, useMemo, useRef, useState } from "preact/hooks";
import { get, type Params, type Problem } from "../../api/client";
import type { Approval } from "../../api/types";
import { asProblem } from "../../parts/load";
import { keyOf } from "./key";

/** Hub tells lists of each approval that has changed. */
export class Hub {
  private listeners = new Set<(a: Approval, event: string) => void>();

  /** listen calls f for each change, until the result is called. */
  listen(f: (a: Approval, event: string) => void): () => void {
    this.listeners.add(f);
    return () => this.listeners.delete(f);
  }

  /** send tells of a newer approval. The event is empty if the page itself has read it. */
  send(a: Approval, event: string) {
    for (const f of this.listeners) f(a, event);
  }
}

// Texts of times are in no order: "…:32Z", which has no fraction, sorts after "…:32.003Z".
export const millis = (time: string | undefined) => Date.parse(time ?? "") || 0;

/** since is how long a changed after b, in ms. */
export const since = (a: Approval, b: Approval | undefined) => millis(a.update_time) - millis(b?.update_time);

/** Filter is what a list of approvals that wait shows, and in which order. */
export interface Filter {
  tenant: string;
  text: string;
  order: string;
}

export const standardOrder = "oldest";

export interface LiveList {
  /** Those that wait, as far as they are loaded, and those that ended meanwhile, in the order of the list. */
  items: Approval[];
  /** How many wait that are not loaded; undefined: some, but their number is unknown. */
  others: number | undefined;
  loading: boolean;
  error: Problem | undefined;
  /** more loads the next page; undefined: all are loaded. */
  more: (() => void) | undefined;
  reload(): void;
}

interface Page {
  approvals?: Approval[];
  next_page_token?: string;
  total_pending?: number;
}

interface State {
  items: Approval[];
  next: string;
  others: number | undefined;
  pages: number;
}

/** The events after which an approval does not wait any more. */
const ended = new Set(["approved", "denied", "expired"]);
const pageSize = 100;
/** How long a search waits for a further letter, in ms. */
const pause = 250;
/** Pages may be empty although more follow. So many are read for one. */
const mostEmpty = 50;
/** A list keeps so many that ended, when it is read again. */
const mostEnded = 50;
const nothing: State = { items: [], next: "", others: undefined, pages: 1 };

/** matches reports whether an approval belongs to a list, as the gateway does. */
function matches(a: Approval, { text }: Filter): boolean {
  const wanted = text.toLowerCase();
  return (
    !wanted ||
    a.id.toLowerCase() === wanted ||
    [a.user, a.agent, a.capability, a.tool, a.request_id, a.session, a.description].some((f) =>
      f?.toLowerCase().includes(wanted),
    )
  );
}

/** put replaces an older state. Of two of the same millisecond, only the feed's order shows which is newer. */
function put(items: Approval[], at: number, a: Approval, ofFeed: boolean): Approval[] {
  const later = since(a, items[at]);
  return later > 0 || (later === 0 && ofFeed) ? items.with(at, a) : items;
}

/** withChange applies a change to a list. One that is not loaded yet comes with its page. */
function withChange(of: State, a: Approval, event: string, filter: Filter): State {
  const key = keyOf(a);
  const at = of.items.findIndex((i) => keyOf(i) === key);
  if (at >= 0) return { ...of, items: put(of.items, at, a, event !== "") };
  const pending = a.state === "pending";
  if (!of.next && matches(a, filter) && (pending || !event))
    return { ...of, items: filter.order === "newest" ? [a, ...of.items] : [...of.items, a] };
  if (!of.next || of.others === undefined) return of;
  const by = event === "asked" ? 1 : ended.has(event) && !(event === "expired" && a.answer_time) ? -1 : 0;
  return { ...of, others: Math.max(1, of.others + by) };
}

/** merged returns the items of pages, and of those that were there before the ones that have ended. */
function merged(items: Approval[], before: Approval[]): Approval[] {
  const known = new Map(items.map((a) => [keyOf(a), a]));
  for (const a of before.filter((a) => a.state !== "pending").slice(-mostEnded)) {
    const now = known.get(keyOf(a));
    if (!now || since(a, now) >= 0) known.set(keyOf(a), a);
  }
  return [...known.values()];
}

/** useLiveList lists approvals that wait. Without a filter it has none, and reads none. */
export function useLiveList(filter: Filter | undefined, hub: Hub): LiveList {
  const [state, set] = useState<State>(nothing);
  const [loading, setLoading] = useState(true);
  const [error, setError] = useState<Problem>();
  const key = JSON.stringify(filter);
  const current = useRef({ key, state, stop: new AbortController(), changes: [] as [Approval, string][] });
  const change = (to: State) => {
    current.current.state = to;
    set(to);
  };
  const read = useCallback(
    async (first: boolean) => {
      if (!filter) return;
      const c = current.current;
      c.stop.abort();
      c.stop = new AbortController();
      const { signal } = c.stop;
      c.changes = [];
      setLoading(true);
      const params: Params = { ...filter, state: "pending", page_size: pageSize };
      try {
        let items: Approval[] = [],
          next = first ? "" : c.state.next,
          pages = first ? 0 : c.state.pages,
          others = first ? undefined : c.state.others;
        const wanted = first ? c.state.pages : pages + 1;
        for (let reads = 0; pages < wanted && reads < wanted + mostEmpty; reads++) {
          const page = await get<Page>("/v1/approvals", { ...params, page_token: next }, signal);
          if (first && reads === 0) others = filter.text ? undefined : page.total_pending;
          if (page.approvals?.length) pages++;
          items = [...items, ...(page.approvals ?? [])];
          next = page.next_page_token ?? "";
          if (!next) break;
        }
        if (signal.aborted) return;
        if (others !== undefined) others = Math.max(1, others - items.length);
        items = first ? merged(items, c.state.items) : merged([...c.state.items, ...items], []);
        let done: State = { items, next, pages: Math.max(pages, 1), others };
        for (const [a, event] of c.changes) done = withChange(done, a, event, filter);
        change(done);
        setError(undefined);
      } catch (err) {
        if (!signal.aborted) setError(asProblem(err));
      }
      if (!signal.aborted) setLoading(false);
    },
    [key],
  );
  useEffect(() => {
    if (current.current.key !== key) {
      change(nothing);
      setLoading(true);
    }
    current.current.key = key;
    // Every letter is another search.
    const timer = filter?.text ? window.setTimeout(read, pause, true) : undefined;
    if (timer === undefined) void read(true);
    return () => {
      window.clearTimeout(timer);
      current.current.stop.abort();
    };
  }, [key]);
  useEffect(() => {
    if (!filter) return;
    return hub.listen((a, event) => {
      const c = current.current;
      c.changes.push([a, event]);
      const to = withChange(c.state, a, event, filter);
      if (to !== c.state) change(to);
    });
  }, [key, hub]);
  // What was read page by page is in the gateway's order; what came since is at the end.
  const items = useMemo(
    () =>
      state.next || filter?.order !== standardOrder
        ? state.items
        : [...state.items].sort((a, b) => millis(a.create_time) - millis(b.create_time)),
    [state.items, state.next, key],
  );
  return {
    items,
    others: state.next ? state.others : 0,
    loading,
    error,
    more: state.next && !loading ? () => void read(false) : undefined,
    reload: useCallback(() => void read(true), [read]),
  };
}
