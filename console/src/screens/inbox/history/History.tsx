// The approvals of the last 30 days that were answered, expired or were withdrawn, and their statistics.
import { useContext, useEffect, useRef, useState } from "preact/hooks";
import { get } from "../../../api/client";
import type { PastApproval, PastApprovalsPage } from "../../../api/types";
import { Choice, Text, Trouble, useSlow } from "../../../parts/ask";
import { Export } from "../../../parts/Export";
import { useList } from "../../../parts/list";
import { Card, Loading, More, own, Table } from "../../../parts/parts";
import { useFilters } from "../../../parts/route";
import { useSession } from "../../../parts/session";
import { useStart } from "../../../parts/start";
import { throttle } from "../../../parts/throttle";
import { ApprovalsContext } from "../feed";
import { keyOf } from "../key";
import type { Hub } from "../live";
import { columns } from "./columns";
import { endsBy, withFresh } from "./fresh";
import { Statistics } from "./Statistics";
import "./history.css";

const fields = ["when", "outcome", "query", "tool", "user", "by"] as const;
const days: Record<string, number> = { "24h": 1, "7d": 7 };
/** Of all that end in so many ms, the first page is read once. */
const pause = 2000;

export function History() {
  const { tenant } = useSession();
  const { hub } = useContext(ApprovalsContext);
  const [of, set] = useFilters(fields);
  const slow = useSlow(of);
  const start = useStart(24 * (own(days, of.when) ?? 30));
  const put = (field: (typeof fields)[number]) => (text: string) => set(field, text);
  const list = useList<PastApproval, PastApprovalsPage>("/v1/approvals/history", "approvals", {
    tenant,
    start_time: start,
    outcome: of.outcome,
    query: slow.query.trim(),
    tool: slow.tool.trim(),
    user: slow.user.trim(),
    answered_by: slow.by.trim(),
    page_size: 100,
  });
  const answered = useEnded(hub);
  const latest = useRef(list);
  latest.current = list;
  useEffect(() => {
    if (!answered) return;
    const stop = new AbortController();
    const { of, items, reload, change } = latest.current;
    get<{ approvals?: PastApproval[] }>(of.path, of.params, stop.signal).then(
      ({ approvals = [] }) => {
        if (stop.signal.aborted || JSON.stringify(latest.current.of) !== JSON.stringify(of)) return;
        if (withFresh(items, approvals)) change((now) => withFresh(now, approvals) ?? now);
        else reload();
      },
      () => {
        if (!stop.signal.aborted) reload();
      },
    );
    return () => stop.abort();
  }, [answered]);
  return (
    <div class="stack">
      <div class="filters" role="search" aria-label="Filter the history">
        <Choice
          label="When"
          value={of.when}
          onInput={put("when")}
          of={[
            ["", "last 30 days"],
            ["7d", "last 7 days"],
            ["24h", "last 24 hours"],
          ]}
        />
        <Choice
          label="Outcome"
          value={of.outcome}
          onInput={put("outcome")}
          of={[
            ["", "any"],
            ["approved", "approved"],
            ["denied", "denied"],
            ["expired", "expired"],
            ["withdrawn", "withdrawn"],
          ]}
        />
        <Text label="Find" value={of.query} onInput={put("query")} placeholder="any text" />
        <Text label="Tool" value={of.tool} onInput={put("tool")} placeholder="any" />
        <Text label="User" value={of.user} onInput={put("user")} placeholder="any" />
        <Text label="Answered by" value={of.by} onInput={put("by")} placeholder="any" />
      </div>
      <Statistics tenant={tenant} start={start} version={answered} />
      <Trouble problem={list.error} retry={list.reload} what="the history of approvals" />
      {list.page?.incomplete && (
        <p class="note wait">
          {tenant === "-"
            ? "Not the approvals of all tenants were searched. Choose a tenant."
            : "Not all approvals of that time were searched. Choose a shorter time."}
        </p>
      )}
      {list.loading && list.items.length === 0 && !list.error && <Loading />}
      {list.page && (
        <Card title="Approvals" tools={<Export of={list.of} name="approvals" />}>
          <Table<PastApproval>
            label="History of approvals"
            more={list.more}
            rows={list.items}
            keyOf={keyOf}
            columns={columns}
            empty={list.more ? "None found so far." : "No approvals match."}
          />
          <More more={list.more} loading={list.loading} />
          <p class="dim small">
            About the newest 5,000 approvals of a tenant are kept, so the list may end earlier than the statistics.
          </p>
        </Card>
      )}
    </div>
  );
}

/** useEnded counts up when approvals have ended. */
function useEnded(hub: Hub): number {
  const [count, set] = useState(0);
  useEffect(() => {
    const later = throttle(() => set((n) => n + 1), pause);
    const stop = hub.listen((a, event) => {
      if (endsBy(a, event)) later.ask();
    });
    return () => {
      stop();
      later.stop();
    };
  }, [hub]);
  return count;
}
