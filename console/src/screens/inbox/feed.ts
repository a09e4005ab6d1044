// The approvals that wait, live. One feed serves the whole page: the count in the navigation, Home and the Inbox.
import { createContext } from "preact";
import { useCallback, useEffect, useRef } from "preact/hooks";
import { get, now, type Problem } from "../../api/client";
import type { FeedState } from "../../api/events";
import type { ServerEvent } from "../../api/parser";
import type { Approval } from "../../api/types";
import { useEvents } from "../../parts/feeds";
import { useSession } from "../../parts/session";
import { setWaiting } from "../../parts/title";
import { Hub, type LiveList, standardOrder, useLiveList } from "./live";
import { notify } from "./notify";

export { keyOf } from "./key";
export { since } from "./live";

export interface Approvals extends LiveList {
  /** How many wait: of those that are loaded, and the others. */
  waiting: number;
  /** waiting as a text: 100+ if the number of the others is unknown. */
  count: string;
  state: FeedState;
  error: Problem | undefined;
  /** Counts up with each change, for lists of what has been answered. */
  version: number;
  /** hub tells of changes. */
  hub: Hub;
  /** put shows a newer approval, as after an answer. */
  put(a: Approval): void;
  /** fetch reads one approval that may not be among them. */
  fetch(tenant: string, id: string): Promise<Approval>;
}

export const ApprovalsContext = createContext<Approvals>(null as unknown as Approvals);

/** stateOf returns the current state. An unanswered approval expires at its time, before the gateway reports it. */
export function stateOf(a: Approval, time: number): string {
  const over = a.expire_time !== undefined && Date.parse(a.expire_time) <= time;
  return over && (a.state === "pending" || a.state === "approved") ? "expired" : a.state;
}

export function useApprovalsFeed(): Approvals {
  const { tenant, say } = useSession();
  const hub = useRef<Hub>(undefined);
  hub.current ??= new Hub();
  const version = useRef(0);
  const list = useLiveList({ tenant, text: "", order: standardOrder }, hub.current);
  const changed = useCallback((a: Approval, event = "") => {
    version.current++;
    hub.current!.send(a, event);
  }, []);
  const state = useEvents(
    "/v1/approvals/events",
    { tenant },
    (e: ServerEvent) => {
      const a = parse(e.data);
      if (!a) return;
      if (!a.state) {
        list.reload(); // it has been deleted
        return;
      }
      changed(a, e.event);
      if (e.event === "asked") {
        say("A new approval waits.");
        notify(a, tenant === "-");
      }
    },
    list.reload,
    true,
  );
  const waiting = list.items.filter((a) => stateOf(a, now()) === "pending").length + (list.others ?? 0);
  const count = waiting ? waiting.toLocaleString("en") + (list.others === undefined ? "+" : "") : "";
  useEffect(() => setWaiting(count), [count]);
  const fetch = useCallback(
    async (of: string, id: string) => get<Approval>(`/v1/approvals/${encodeURIComponent(id)}`, { tenant: of }),
    [],
  );
  return {
    ...list,
    waiting,
    count,
    state,
    version: version.current,
    hub: hub.current,
    put: changed,
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
