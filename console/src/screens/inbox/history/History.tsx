// The approvals of the last 30 days that were answered, expired or were withdrawn, and their statistics.
import { useContext, useEffect } from "preact/hooks";
import type { PastApproval, PastApprovalsPage } from "../../../api/types";
import { Choice, Text, Trouble, useSlow } from "../../../parts/ask";
import { Export } from "../../../parts/Export";
import { useList } from "../../../parts/list";
import { Card, Loading, More, own, Table } from "../../../parts/parts";
import { useFilters } from "../../../parts/route";
import { useSession } from "../../../parts/session";
import { useStart } from "../../../parts/start";
import { ApprovalsContext } from "../feed";
import { keyOf } from "../key";
import { columns } from "./columns";
import { Statistics } from "./Statistics";
import "./history.css";

const fields = ["when", "outcome", "query", "tool", "user", "by"] as const;
const days: Record<string, number> = { "24h": 1, "7d": 7 };
/** Of many answers, the list is read once. */
const pause = 1000;

export function History() {
  const { tenant } = useSession();
  const { version } = useContext(ApprovalsContext);
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
  const answered = useSlow(version, pause);
  useEffect(() => {
    if (answered) list.reload();
  }, [answered]);
  return (
    <div class="stack">
      <div class="filters" role="search" aria-label="Filter the history">
        <Choice
          label="When"
          value={of.when}
          onInput={put("when")}
          of={[
            ["", "the last 30 days"],
            ["7d", "the last 7 days"],
            ["24h", "the last 24 hours"],
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
        <Text label="Find" value={of.query} onInput={put("query")} placeholder="id, name or comment" />
        <Text label="Tool" value={of.tool} onInput={put("tool")} placeholder="any" />
        <Text label="User" value={of.user} onInput={put("user")} placeholder="any" />
        <Text label="Answered by" value={of.by} onInput={put("by")} placeholder="any" />
      </div>
      <Statistics tenant={tenant} start={start} version={answered} />
      <Trouble problem={list.error} retry={list.reload} what="the history of approvals" />
      {list.page?.incomplete && (
        <p class="note wait">Not all approvals of that time were searched. Choose a tenant, or a shorter time.</p>
      )}
      {list.loading && list.items.length === 0 && !list.error && <Loading />}
      {list.page && (
        <Card title="Approvals" tools={<Export of={list.of} name="approvals" />}>
          <Table<PastApproval>
            label="History of approvals"
            rows={list.items}
            keyOf={keyOf}
            columns={columns}
            empty="No approval of that time fits."
          />
          <More more={list.more} loading={list.loading} />
        </Card>
      )}
    </div>
  );
}
