// Notices that could not be delivered.
import { useState } from "preact/hooks";
import { post } from "../../api/client";
import type { Letter, LettersPage } from "../../api/types";
import { Ask, Trouble, useSlow } from "../../parts/ask";
import { Export } from "../../parts/Export";
import { useList } from "../../parts/list";
import { Card, type Column, Loading, More, Screen, Search, Table } from "../../parts/parts";
import { allTenants, Needs, useMay } from "../../parts/roles";
import { useFilters } from "../../parts/route";
import { useSession } from "../../parts/session";
import { timeOf } from "../../parts/sorted";
import { Ago } from "../../parts/Time";
import { inWords, Untrusted } from "../../parts/Untrusted";
import { RetryAll } from "./RetryAll";

/** The documentation; the page loads it only if the link is followed. */
const docs = "https://github.com/capgate/capgate/blob/main/docs/";

export function Webhooks(_: { rest: string[] }) {
  const { say } = useSession();
  const [{ query }, set] = useFilters(["query"]);
  const wanted = useSlow(query.trim());
  const { items, page, error, loading, more, reload, of } = useList<Letter, LettersPage>(
    "/v1/webhooks/dead",
    "dead",
    { query: wanted, page_size: 100 },
    10_000,
  );
  const { may, why } = useMay("operator", allTenants);
  const [asked, ask] = useState<Letter | "all">();
  const columns: Column<Letter>[] = [
    { title: "To", by: (l) => l.destination, cell: (l) => <Untrusted text={l.destination} mono most={60} /> },
    {
      title: "Event",
      by: (l) => timeOf(l.time),
      cell: (l) => (
        <>
          <Untrusted text={l.type} mono most={60} />
          <div class="dim small">
            <Ago time={l.time} />
          </div>
        </>
      ),
    },
    {
      title: "About",
      by: (l) => `${l.tenant} ${l.approval}`,
      cell: (l) => {
        const tenant = <Untrusted text={l.tenant} most={60} />;
        if (!l.approval) return <a href={"#/tenants/" + encodeURIComponent(l.tenant)}>{tenant}</a>;
        return (
          <>
            <a href={"#/inbox/" + encodeURIComponent(l.approval)}>
              <Untrusted text={l.approval} mono most={40} />
            </a>
            <div class="dim small">{tenant}</div>
          </>
        );
      },
    },
    {
      title: "Why",
      by: (l) => l.error,
      kind: "wide",
      cell: (l) => (
        <>
          <Untrusted text={l.error} most={200} />
          <div class="dim small">
            {l.attempts} {l.attempts === 1 ? "attempt" : "attempts"}, the last <Ago time={l.died} />
          </div>
        </>
      ),
    },
    {
      title: "Actions",
      kind: "num",
      cell: (l) => (
        <button
          type="button"
          class="button small"
          disabled={!may}
          title={why}
          aria-label={`Retry ${inWords(l.id, 60)}`}
          onClick={() => ask(l)}
        >
          Retry
        </button>
      ),
    },
  ];
  const retry = async (l: Letter) => {
    await post(`/v1/webhooks/dead/${encodeURIComponent(l.id)}:retry`);
    say("The event waits for another delivery.");
    reload();
  };
  return (
    <Screen
      title="Webhooks"
      about="Notices that could not be delivered"
      tools={
        <>
          <Search label="Search by destination, approval or reason" value={query} onInput={(v) => set("query", v)} />
          <Export of={of} name="dead-letters" />
          <button
            type="button"
            class="button"
            disabled={!may || items.length === 0}
            title={why}
            onClick={() => ask("all")}
          >
            {wanted ? "Retry all that match" : "Retry all"}
          </button>
        </>
      }
    >
      <div class="stack">
        <Needs role="operator" tenant={allTenants} what="Retries" />
        <Trouble problem={error} retry={reload} what="dead letters" />
        {loading && items.length === 0 && !error && <Loading />}
        {page && (
          <Card>
            <Table
              label="Dead letters"
              more={more}
              columns={columns}
              rows={items}
              keyOf={(l) => l.id}
              empty={wanted ? "No dead letters match." : <NoLetters to={page.destinations ?? []} />}
            />
          </Card>
        )}
        {!!page?.malformed && (
          <p class="dim small">
            {page.malformed === 1 ? "One dead letter" : `${page.malformed} dead letters`} in Redis cannot be read.
          </p>
        )}
        <More more={more} shown={items.length} />
      </div>
      {asked === "all" && <RetryAll query={wanted} onClose={() => ask(undefined)} onDone={reload} />}
      {asked && asked !== "all" && (
        <Ask title="Retry this event?" verb="Retry" run={() => retry(asked)} onClose={() => ask(undefined)}>
          <p>
            <Untrusted text={asked.type} mono /> to{" "}
            <b>
              <Untrusted text={asked.destination} />
            </b>
          </p>
          <p class="dim">
            It is sent with its old webhook-id, so a receiver that already has it recognizes it. If it fails again, it
            comes back here.
          </p>
        </Ask>
      )}
    </Screen>
  );
}

/** NoLetters says what an empty list means: where nothing is configured, nothing arrives. */
function NoLetters({ to }: { to: string[] }) {
  if (to.length > 0)
    return (
      <>
        There are no dead letters. All notices to{" "}
        {to.map((name, i) => (
          <>
            {i > 0 && ", "}
            <Untrusted text={name} mono most={60} />
          </>
        ))}{" "}
        arrived.
      </>
    );
  return (
    <>
      <b>No notices are configured</b>
      New approvals appear only in the inbox. To send notices, set <span class="mono">approvals.notices</span> in the
      configuration:{" "}
      <a href={docs + "use/approvals.md#notices"} target="_blank" rel="noopener noreferrer">
        how notices are set up
      </a>
      .
    </>
  );
}
