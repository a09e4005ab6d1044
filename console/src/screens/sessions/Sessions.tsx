// Who is signed in, at the admin API and at the inbox, and how sessions end.
import { useState } from "preact/hooks";
import { post } from "../../api/client";
import type { SessionRecord, SessionsPage } from "../../api/types";
import { Ask, Trouble, useSlow } from "../../parts/ask";
import { Export } from "../../parts/Export";
import { useList } from "../../parts/list";
import { Badge, Card, type Column, Loading, More, own, Screen, Search, Table } from "../../parts/parts";
import { allTenants, Needs, useMay } from "../../parts/roles";
import { useFilters } from "../../parts/route";
import { useSession } from "../../parts/session";
import { timeOf } from "../../parts/sorted";
import { Ago, Exact } from "../../parts/Time";
import { inWords, Untrusted } from "../../parts/Untrusted";

const places: Record<string, string> = { admin: "the console", inbox: "the inbox", program: "a program" };
const ways: Record<string, string> = { person: "an issuer", key: "an API key", start: "the start token" };

interface Asked {
  of: SessionRecord;
  all: boolean;
}

export function Sessions(_: { rest: string[] }) {
  const { me } = useSession();
  const { may, why } = useMay("admin", allTenants);
  const [{ query }, set] = useFilters(["query"]);
  const { items, page, error, loading, more, reload, of } = useList<SessionRecord, SessionsPage>(
    "/v1/sessions",
    "sessions",
    { query: useSlow(query.trim()), page_size: 100 },
    10_000,
  );
  const [asked, ask] = useState<Asked>();
  const several = (s: SessionRecord) => items.filter((o) => o.name === s.name).length > 1;
  const columns: Column<SessionRecord>[] = [
    {
      title: "Who",
      by: (s) => s.name,
      kind: "wide",
      cell: (s) => (
        <>
          <Untrusted text={s.name} most={120} />
          {s.key_name && (
            <div class="dim small">
              <Untrusted text={s.key_name} most={100} />
            </div>
          )}
          {s.id === me.session && (
            <div>
              <Badge tone="info">this one</Badge>
            </div>
          )}
        </>
      ),
    },
    {
      title: "At",
      by: (s) => `${s.kind} ${s.tenant}`,
      cell: (s) => (
        <>
          {own(places, s.kind) ?? inWords(s.kind, 30)}
          {s.tenant && (
            <div class="dim small">
              tenant <Untrusted text={s.tenant} mono most={64} />
            </div>
          )}
        </>
      ),
    },
    { title: "By", by: (s) => s.via, cell: (s) => own(ways, s.via) ?? inWords(s.via, 30) },
    { title: "Signed in", by: (s) => timeOf(s.create_time), cell: (s) => <Ago time={s.create_time} /> },
    { title: "Ends", by: (s) => timeOf(s.expire_time), cell: (s) => <Exact time={s.expire_time} /> },
    {
      title: "Actions",
      kind: "num",
      cell: (s) => (
        <span class="row actions">
          <button
            type="button"
            class="button small"
            disabled={!may}
            title={why}
            aria-label={`End the session of ${inWords(s.name, 80)} at ${own(places, s.kind) ?? "another place"}`}
            onClick={() => ask({ of: s, all: false })}
          >
            End
          </button>
          {several(s) && (
            <button
              type="button"
              class="button small"
              disabled={!may}
              title={why}
              aria-label={`End all sessions of ${inWords(s.name, 80)}`}
              onClick={() => ask({ of: s, all: true })}
            >
              End all
            </button>
          )}
        </span>
      ),
    },
  ];
  return (
    <Screen
      title="Sessions"
      about="Who is signed in, at the admin API and at the inbox"
      tools={
        <>
          <Search label="Search by name, key or tenant" value={query} onInput={(v) => set("query", v)} />
          <Export of={of} name="sessions" />
        </>
      }
    >
      <div class="stack">
        <Needs role="admin" tenant={allTenants} what="Sessions" />
        <Trouble problem={error} retry={reload} what="sessions" />
        {loading && items.length === 0 && !error && <Loading />}
        {page && (
          <Card>
            <Table
              label="Sessions"
              more={more}
              columns={columns}
              rows={items}
              keyOf={(s) => s.id}
              empty={query ? "No sessions match." : "No one is signed in. API keys and tokens need no session."}
            />
          </Card>
        )}
        <More more={more} shown={items.length} total={page?.total_size} />
      </div>
      {asked && <End {...asked} onClose={() => ask(undefined)} onDone={reload} />}
    </Screen>
  );
}

function End({ of, all, onClose, onDone }: Asked & { onClose(): void; onDone(): void }) {
  const { me, say } = useSession();
  const self = all ? of.name === me.name : of.id === me.session;
  const run = async () => {
    await post("/v1/sessions:revoke", all ? { name: of.name } : { session: of.id });
    say(all ? "All its sessions have ended." : "The session has ended.");
    onDone();
  };
  return (
    <Ask
      title={all ? "End all sessions?" : "End this session?"}
      verb={all ? "End all" : "End"}
      danger
      run={run}
      onClose={onClose}
    >
      <p>
        <b>
          <Untrusted text={of.name} most={120} />
        </b>
        {!all && (
          <>
            , at {own(places, of.kind) ?? inWords(of.kind, 30)}, since <Exact time={of.create_time} />
          </>
        )}
      </p>
      <p class="dim">
        {all ? "Everything signed in under this name ends" : "It ends"} at all replicas within two seconds, with its
        streams. Roles and keys stay valid, so the person can sign in again.
      </p>
      {self && <p class="note wait">That is you: this page leads to the sign-in.</p>}
    </Ask>
  );
}
