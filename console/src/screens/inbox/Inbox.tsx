// Approvals that wait for a person, and what became of others.
import { useContext, useEffect, useState } from "preact/hooks";
import { mode, now, type Problem } from "../../api/client";
import type { Approval } from "../../api/types";
import { useKeys } from "../../parts/keys";
import { Empty, Failure, Loading, Screen } from "../../parts/parts";
import { useSession } from "../../parts/session";
import { inWords } from "../../parts/Untrusted";
import { AnswerDialog } from "./Answer";
import { ApprovalCard, useWhyNot } from "./ApprovalCard";
import { ApprovalsContext, since, stateOf } from "./feed";
import { History } from "./history/History";
import { Waiting } from "./Waiting";
import "./inbox.css";

const root = mode === "inbox" ? "#/" : "#/inbox";

/** The parts of the address are history, or one approval: its id, and in the inbox of the public port its tenant. */
export function Inbox({ rest }: { rest: string[] }) {
  const [first, second] = rest;
  const id = mode === "inbox" ? second : first;
  if (id && id !== "history") return <One key={rest.join("/")} tenant={mode === "inbox" ? first! : ""} id={id} />;
  return <Lists history={first === "history"} />;
}

function Lists({ history }: { history: boolean }) {
  const { count } = useContext(ApprovalsContext);
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
          Waiting{count && <span class="count">{count}</span>}
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
  return (
    <>
      <ApprovalCard of={a} alone ask={ask} />
      {asked && <AnswerDialog of={a} deny={asked === "deny"} onClose={() => ask(undefined)} />}
    </>
  );
}
