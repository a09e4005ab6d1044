// Approvals that wait for a person, and what became of others.
import { useContext, useEffect, useRef, useState } from "preact/hooks";
import { mode, now, type Problem } from "../../api/client";
import type { Approval } from "../../api/types";
import { useKeys } from "../../parts/keys";
import { Empty, Failure, Loading, Screen } from "../../parts/parts";
import { useSession } from "../../parts/session";
import { inWords } from "../../parts/Untrusted";
import { type Rows, VirtualList } from "../../parts/VirtualList";
import { ApprovalCard, addressOf, useWhyNot } from "./ApprovalCard";
import { ApprovalsContext, keyOf, since, stateOf } from "./feed";
import { History } from "./History";

const root = mode === "inbox" ? "#/" : "#/inbox";

/** The parts of the address are history, or one approval: its id, and in the inbox of the public port its tenant. */
export function Inbox({ rest }: { rest: string[] }) {
  const [first, second] = rest;
  const id = mode === "inbox" ? second : first;
  if (id && id !== "history") return <One key={rest.join("/")} tenant={mode === "inbox" ? first! : ""} id={id} />;
  return <Lists history={first === "history"} />;
}

function Lists({ history }: { history: boolean }) {
  const { waiting } = useContext(ApprovalsContext);
  const go = (to: string) => {
    location.hash = to;
  };
  const historyRoot = mode === "inbox" ? "#/history" : "#/inbox/history";
  return (
    <Screen title="Inbox">
      <div class="tabs" role="tablist" aria-label="Approvals">
        <button
          type="button"
          role="tab"
          id="tab-waiting"
          aria-controls="approvals"
          aria-selected={!history}
          onClick={() => go(root)}
        >
          Waiting{waiting > 0 && <span class="count">{waiting}</span>}
        </button>
        <button
          type="button"
          role="tab"
          id="tab-history"
          aria-controls="approvals"
          aria-selected={history}
          onClick={() => go(historyRoot)}
        >
          History
        </button>
      </div>
      <div id="approvals" role="tabpanel" aria-labelledby={history ? "tab-history" : "tab-waiting"}>
        {history ? <History /> : <Waiting />}
      </div>
    </Screen>
  );
}

type Asked = { key: string; what: "approve" | "deny" } | undefined;

function Waiting() {
  const { items, error, loading, reload, state } = useContext(ApprovalsContext);
  const [asked, ask] = useState<Asked>();
  const rows = useRef<Rows>(null);
  const selected = (): Approval | undefined => items[rows.current?.current() ?? -1];
  const answer = (what: "approve" | "deny") => {
    const button = document.activeElement
      ?.closest("[data-row]")
      ?.querySelector<HTMLButtonElement>(what === "approve" ? "button.approve" : "button.deny");
    const a = selected();
    if (a && button && !button.disabled) ask({ key: keyOf(a), what });
  };
  useKeys({
    a: () => answer("approve"),
    d: () => answer("deny"),
    Enter: () => {
      const a = selected();
      if (a) location.hash = addressOf(a);
    },
  });
  const empty = items.length === 0;
  return (
    <>
      <Failure problem={error} retry={reload} />
      {state === "stale" && (
        <p class="note wait stale" role="status">
          The connection is lost. What you see may be old; the page reconnects by itself.
        </p>
      )}
      {empty && loading && !error && <Loading />}
      {empty && !loading && !error && (
        <Empty>
          <b>Nothing waits for you</b>A call that needs a person's consent appears here at once.
        </Empty>
      )}
      <VirtualList<Approval>
        label="Approvals"
        items={items}
        keyOf={keyOf}
        estimate={420}
        rows={rows}
        row={(a) => (
          <ApprovalCard
            of={a}
            asked={asked?.key === keyOf(a) ? asked.what : undefined}
            ask={(what) => ask(what && { key: keyOf(a), what })}
          />
        )}
      />
      <p class="hidden" role="status">
        {items.filter((a) => stateOf(a, now()) === "pending").length} waiting
      </p>
    </>
  );
}

/** One approval, as a notice leads to it. It stays live. */
function One({ tenant, id }: { tenant: string; id: string }) {
  const { items, fetch, put, state } = useContext(ApprovalsContext);
  const { me, tenant: chosen, setTenant } = useSession();
  const [read, setRead] = useState<Approval>();
  const [problem, setProblem] = useState<Problem>();
  const [asked, ask] = useState<"approve" | "deny">();
  const load = () => {
    setProblem(undefined);
    fetch(tenant, id).then(
      (a) => {
        setRead(a);
        if (a.state !== "pending") put(a);
      },
      (err: unknown) => setProblem(err as Problem),
    );
  };
  // What happened while the feed was away is read again.
  useEffect(() => {
    if (state !== "stale") load();
  }, [tenant, id, state === "stale"]);
  const live = items.find((a) => a.id === id);
  const shown = live && since(live, read) >= 0 ? live : read;
  // The feed of one tenant does not tell of another one's approval.
  const of = shown?.tenant;
  useEffect(() => {
    if (of && chosen !== "-" && chosen !== of && !me.tenant) setTenant("-");
  }, [of, chosen]);
  return (
    <Screen
      title="Approval"
      tools={
        <a class="button" href={root}>
          All approvals
        </a>
      }
    >
      {problem?.reason === "APPROVER_REQUIRED" ? (
        <Empty>
          <b>It belongs to another tenant</b>
          {inWords(problem.detail, 500)}.
        </Empty>
      ) : problem?.status === 404 ? (
        <Empty>
          <b>There is no such approval</b>It is deleted an hour after its end. Or it is not yours to see.
        </Empty>
      ) : (
        <Failure problem={problem} retry={load} />
      )}
      {!shown && !problem && <Loading />}
      {shown && <OneCard of={shown} asked={asked} ask={ask} />}
    </Screen>
  );
}

function OneCard({
  of: a,
  asked,
  ask,
}: {
  of: Approval;
  asked: "approve" | "deny" | undefined;
  ask(what: "approve" | "deny" | undefined): void;
}) {
  const why = useWhyNot(a);
  const can = !why && stateOf(a, now()) === "pending";
  useKeys({
    a: () => {
      if (can && !a.may_not_approve_why) ask("approve");
    },
    d: () => {
      if (can) ask("deny");
    },
  });
  return <ApprovalCard of={a} alone asked={asked} ask={ask} />;
}
