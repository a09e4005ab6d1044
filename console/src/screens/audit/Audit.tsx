// What operators and approvers changed.
import type { Change, ChangesPage } from "../../api/types";
import { Text, Trouble, useSlow } from "../../parts/ask";
import { Export } from "../../parts/Export";
import { useList } from "../../parts/list";
import { Card, type Column, Loading, More, Screen, Table } from "../../parts/parts";
import { useFilters } from "../../parts/route";
import { useSession } from "../../parts/session";
import { timeOf } from "../../parts/sorted";
import { Ago } from "../../parts/Time";
import { inWords, Untrusted } from "../../parts/Untrusted";

const kinds = ["approval.*", "rule.*", "tenant.*", "key.*", "backend.*", "tool.*", "letter.*", "session.*"];

export function Audit(_: { rest: string[] }) {
  const { tenant } = useSession();
  const [{ query, actor, what }, set] = useFilters(["query", "actor", "what"]);
  const { items, page, error, loading, more, reload, of } = useList<Change, ChangesPage>(
    "/v1/audit",
    "changes",
    {
      tenant,
      query: useSlow(query.trim()),
      actor: useSlow(actor.trim()),
      what: useSlow(what.trim()),
      page_size: 100,
    },
    10_000,
  );
  const columns: Column<Change>[] = [
    { title: "When", by: (c) => timeOf(c.time), cell: (c) => <Ago time={c.time} /> },
    { title: "Who", by: (c) => c.actor, cell: (c) => <Untrusted text={c.actor} most={120} /> },
    { title: "What", by: (c) => c.what, cell: (c) => <Untrusted text={c.what} mono most={80} /> },
    {
      title: "Tenant",
      by: (c) => c.tenant,
      cell: (c) => <Untrusted text={c.tenant} mono none="–" most={80} />,
    },
    { title: "Target", kind: "wide", cell: (c) => <Targets of={c} /> },
    { title: "Replica", by: (c) => c.replica, cell: (c) => <Untrusted text={c.replica} mono most={60} /> },
  ];
  return (
    <Screen
      title="Audit"
      about="The last changes at all replicas. The audit log has all of them."
      tools={<Export of={of} name="audit" />}
    >
      <div class="stack">
        <div class="filters">
          <Text label="Find" value={query} onInput={(v) => set("query", v)} placeholder="any text" />
          <Text label="Who" value={actor} onInput={(v) => set("actor", v)} placeholder="anybody" />
          <Text label="What" value={what} onInput={(v) => set("what", v)} placeholder="for example rule.*" of={kinds} />
        </div>
        <Trouble problem={error} retry={reload} what="its changes" />
        {page?.partial && <p class="note wait">Redis is away: these are the changes of one replica.</p>}
        {loading && items.length === 0 && !error && <Loading />}
        {page && (
          <Card>
            <Table
              label="Changes"
              more={more}
              columns={columns}
              rows={items}
              keyOf={(c) => c.id}
              empty="No changes match."
            />
          </Card>
        )}
        <More more={more} shown={items.length} />
      </div>
    </Screen>
  );
}

const Targets = ({ of }: { of: Change }) => (
  <div class="facts-line">
    {(of.targets ?? []).map((t, i) => (
      <span key={i}>
        <span class="dim">{inWords(t.name ?? "", 60)}</span> <Untrusted text={t.value} mono most={120} />
      </span>
    ))}
  </div>
);
