// How many approvals were answered, how fast, by whom and for which tools.
import { useEffect } from "preact/hooks";
import type { ApprovalCounts, ApprovalStatistics } from "../../../api/types";
import { useGet } from "../../../parts/load";
import { Card, type Column, Failure, Table } from "../../../parts/parts";
import { inWords, Untrusted } from "../../../parts/Untrusted";
import { DayChart } from "./DayChart";
import { count, share, took } from "./numbers";

type Tool = NonNullable<ApprovalStatistics["tools"]>[number];
type Person = NonNullable<ApprovalStatistics["people"]>[number];

interface Counted {
  counts?: ApprovalCounts;
}

export function Statistics({ tenant, start, version }: { tenant: string; start: string; version: number }) {
  const { value, error, reload } = useGet<ApprovalStatistics>("/v1/approvals/statistics", {
    tenant,
    start_time: start,
  });
  useEffect(() => {
    if (version) reload();
  }, [version]);
  // A caller with a user sees its own approvals, and no statistics.
  if (error?.reason === "APPROVER_REQUIRED") return null;
  if (error) return <Failure problem={error} retry={reload} />;
  if (!value) return null;
  const { all = {}, days = [], tools = [], people = [], incomplete } = value;
  return (
    <Card title="Statistics" class="statistics">
      <p class="dim small">
        All approvals that ended in this period (UTC). Of the filters, only the period applies.
        {incomplete &&
          (tenant === "-"
            ? " Not all tenants are counted: choose one."
            : " Not all approvals are counted: you may see only some capabilities.")}
      </p>
      <dl class="numbers">
        {(
          [
            ["Answered", count((all.approved ?? 0) + (all.denied ?? 0))],
            ["Denied", share(all.denied_share)],
            ["Expired unanswered", count(all.expired)],
            ["Median time to answer", took(all.p50)],
            ["90% answered within", took(all.p90)],
          ] as const
        ).map(([name, number]) => (
          <div key={name}>
            <dt>{name}</dt>
            <dd>{number}</dd>
          </div>
        ))}
      </dl>
      <DayChart days={days} />
      <details>
        <summary>By tool and by approver</summary>
        <div class="stack">
          <Table<Tool>
            label="Statistics by tool"
            rows={tools}
            keyOf={(t) => (t.others ? "others" : `${t.capability} ${t.tool}`)}
            columns={[
              {
                title: "Tool",
                kind: "wide",
                cell: (t) => (t.others ? "Others" : <Untrusted text={`${t.capability}.${t.tool}`} mono most={100} />),
              },
              ...numbers<Tool>(),
              { title: "Expired", kind: "num", cell: ({ counts }) => count(counts?.expired) },
            ]}
          />
          {people.length > 0 && (
            <Table<Person>
              label="Statistics by approver"
              rows={people}
              keyOf={(p) => (p.others ? "others" : inWords(p.name ?? "", 300))}
              columns={[
                {
                  title: "Answered by",
                  kind: "wide",
                  cell: (p) => (p.others ? "Others" : <Untrusted text={p.name} most={100} />),
                },
                ...numbers<Person>(),
              ]}
            />
          )}
        </div>
      </details>
    </Card>
  );
}

/** numbers are the columns of counts. */
const numbers = <T extends Counted>(): Column<T>[] => [
  { title: "Approved", kind: "num", cell: ({ counts }) => count(counts?.approved) },
  { title: "Denied", kind: "num", cell: ({ counts }) => count(counts?.denied) },
  { title: "Share denied", kind: "num", cell: ({ counts }) => share(counts?.denied_share) },
  { title: "Half within", kind: "num", cell: ({ counts }) => took(counts?.p50) },
  { title: "90% within", kind: "num", cell: ({ counts }) => took(counts?.p90) },
];
