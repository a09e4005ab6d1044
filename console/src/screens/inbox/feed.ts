// The approvals that wait, live. One feed serves the whole page: the count in the navigation, Home and the Inbox.
import { createContext } from "preact";
import { useCallback, useMemo, useRef } from "preact/hooks";
import { get, now, type Problem } from "../../api/client";
import type { FeedState } from "../../api/events";
import type { ServerEvent } from "../../api/parser";
import type { Approval } from "../../api/types";
import { useEvents } from "../../parts/feeds";
import { useList } from "../../parts/list";
import { useSession } from "../../parts/session";

export interface Approvals {
  /** Those that wait, and those that ended while the page was open; the oldest first. */
  items: Approval[];
  waiting: number;
  state: FeedState;
  error: Problem | undefined;
  loading: boolean;
  /** Counts up with each change, for lists of what has been answered. */
  version: number;
  reload(): void;
  /** put shows a newer approval, as after an answer. */
  put(a: Approval): void;
  /** fetch reads one approval that may not be among them. */
  fetch(tenant: string, id: string): Promise<Approval>;
}

export const ApprovalsContext = createContext<Approvals>(null as unknown as Approvals);

export const keyOf = (a: { tenant: string; id: string }) => a.tenant + "/" + a.id;

/** stateOf returns the current state. An unanswered approval expires at its time, before the gateway reports it. */
export function stateOf(a: Approval, time: number): string {
  const over = a.expire_time !== undefined && Date.parse(a.expire_time) <= time;
  return over && (a.state === "pending" || a.state === "approved") ? "expired" : a.state;
}

// Texts of times are in no order: "…:32Z", which has no fraction, sorts after "…:32.003Z".
const millis = (time: string | undefined) => Date.parse(time ?? "") || 0;

/** since is how long a changed after b, in ms. */
export const since = (a: Approval, b: Approval | undefined) => millis(a.update_time) - millis(b?.update_time);

/** put replaces an older state. Of two of the same millisecond, only the feed's order shows which is newer. */
function put(items: Approval[], a: Approval, ofFeed: boolean): Approval[] {
  const at = items.findIndex((i) => keyOf(i) === keyOf(a));
  if (at < 0) return [...items, a];
  const later = since(a, items[at]);
  return later > 0 || (later === 0 && ofFeed) ? items.with(at, a) : items;
}

/** A page lists no more than so many that ended while it was open. */
const mostEnded = 50;

export function useApprovalsFeed(): Approvals {
  const { tenant, say } = useSession();
  const params = { tenant };
  const ended = useRef<{ of: string; items: Approval[] }>({ of: tenant, items: [] });
  if (ended.current.of !== tenant) ended.current = { of: tenant, items: [] };
  const version = useRef(0);
  const { items, error, loading, reload, change, more } = useList<Approval>("/v1/approvals", "approvals", {
    ...params,
    state: "pending",
    page_size: 100,
  });
  if (more && !loading && !error && items.length < 1000) queueMicrotask(more);
  const keep = useCallback((a: Approval, ofFeed = false) => {
    version.current++;
    if (a.state !== "pending") ended.current.items = put(ended.current.items, a, ofFeed).slice(-mostEnded);
    // A list that was read again has nothing of those that ended.
    const newest = ended.current.items.find((e) => keyOf(e) === keyOf(a)) ?? a;
    change((all) => put(all, newest, ofFeed));
  }, []);
  const state = useEvents(
    "/v1/approvals/events",
    params,
    (e: ServerEvent) => {
      const a = parse(e.data);
      if (!a) return;
      if (e.event === "asked") say("A new approval waits.");
      if (a.state) keep(a, true);
      else reload(); // it has been deleted
    },
    reload,
  );
  const all = useMemo(() => {
    const shown = ended.current.items.filter((e) => !items.some((i) => keyOf(i) === keyOf(e)));
    return [...items, ...shown].sort((a, b) => millis(a.create_time) - millis(b.create_time));
  }, [items]);
  const fetch = useCallback(
    async (of: string, id: string) => get<Approval>(`/v1/approvals/${encodeURIComponent(id)}`, { tenant: of }),
    [],
  );
  return {
    items: all,
    waiting: all.filter((a) => stateOf(a, now()) === "pending").length,
    state,
    error,
    loading,
    reload,
    version: version.current,
    put: keep,
    fetch,
  };
}

function parse(data: string): Approval | undefined {
  try {
    const a = JSON.parse(data) as Approval;
    return a && typeof a.id === "string" && a.id ? a : undefined;
  } catch {
    return undefined;
  }
}
