// One approval: its effect, its origin, the time left, and the answer.
import type { ComponentChildren } from "preact";
import { useEffect, useRef } from "preact/hooks";
import type { Approval } from "../../api/types";
import { Icon } from "../../parts/Icon";
import { useClock, useNow } from "../../parts/now";
import { Badge, Facts } from "../../parts/parts";
import { useMay } from "../../parts/roles";
import { useSession } from "../../parts/session";
import { Ago, Exact, span } from "../../parts/Time";
import { Untrusted } from "../../parts/Untrusted";
import { Arguments } from "./Arguments";
import { addressOf } from "./address";
import { stateOf } from "./feed";
import { ToolChange } from "./ToolChange";
import { useWhole } from "./whole";
import { byOf, policyOf, rememberedAs, stateInWords, toolInWords } from "./words";

/** whyNot is why the person cannot answer; undefined: it can. */
export function useWhyNot(a: Approval): string | undefined {
  const { may, why } = useMay("approver", a.tenant);
  if (a.level === "elsewhere") return "Only the engine's own page can answer.";
  if (a.may_not_answer_why) return a.may_not_answer_why;
  return may ? undefined : why + ".";
}

interface Props {
  of: Approval;
  alone?: boolean;
  /** Opens the question before an answer. */
  ask(what: "approve" | "deny"): void;
  /** What chooses it for one answer with others. */
  choose?: ComponentChildren;
}

export function ApprovalCard({ of: a, alone = false, ask, choose }: Props) {
  const state = useClock((time) => stateOf(a, time));
  const why = useWhyNot(a);
  const pending = state === "pending";
  const title = toolInWords(a.tool);
  const all = useWhole(a, alone);
  return (
    <article
      class={`card approval ${state}`}
      tabIndex={alone ? undefined : 0}
      data-id={a.id}
      data-state={state}
      aria-label={`${title}, ${stateInWords(state)[1]}`}
    >
      <header class="approval-head">
        {choose}
        <div>
          <h2>
            {alone ? (
              title
            ) : (
              <a class="plain" href={addressOf(a)} tabIndex={-1}>
                {title}
              </a>
            )}
          </h2>
          <p class="dim small">
            <Untrusted text={a.capability} mono most={80} /> · <Untrusted text={a.tool} mono most={80} />
          </p>
        </div>
        {pending && a.expire_time ? (
          <Countdown until={Date.parse(a.expire_time)} />
        ) : (
          <Badge tone={stateInWords(state)[0]}>{stateInWords(state)[1]}</Badge>
        )}
      </header>
      <Asker of={a} />
      <p class="about">
        {a.description ? <Untrusted text={a.description} most={220} /> : "The catalog has no description of this tool."}
      </p>
      <ToolChange of={a} all={alone} />
      <Arguments of={all.of} all={alone} />
      {!alone && a.arguments_excerpt && (
        <p class="small">
          <a href={addressOf(a)}>View the whole call</a>
        </p>
      )}
      <p class="policy small">
        <Icon name="policies" />
        <span>
          <Untrusted text={policyOf(a)} most={240} />
        </span>
      </p>
      <Progress of={a} pending={pending} />
      {alone && <Details of={a} />}
      {pending ? (
        <>
          {why && <p class="note">{<Untrusted text={why} />}</p>}
          {!why && a.may_not_approve_why && (
            <p class="note wait">
              <Untrusted text={a.may_not_approve_why} />
            </p>
          )}
          <div class="answers">
            <button
              type="button"
              class="button approve"
              disabled={Boolean(why || a.may_not_approve_why)}
              onClick={() => ask("approve")}
            >
              <Icon name="check" />
              Approve
            </button>
            <button type="button" class="button deny" disabled={Boolean(why)} onClick={() => ask("deny")}>
              <Icon name="cross" />
              Deny
            </button>
          </div>
        </>
      ) : (
        <Outcome of={a} state={state} />
      )}
    </article>
  );
}

/** The time left; the last minute is announced to screen readers once. */
export function Countdown({ until }: { until: number }) {
  const seconds = useClock((time) => Math.max(0, Math.ceil((until - time) / 1000)));
  const left = seconds * 1000;
  const text = seconds < 3600 ? `${Math.floor(seconds / 60)}:${String(seconds % 60).padStart(2, "0")}` : span(left);
  return (
    <span class={"countdown" + (seconds <= 60 ? " soon" : "")} role="timer" aria-live="off">
      <Icon name="clock" />
      <span>
        <b>{text}</b> left
      </span>
      <span class="hidden" role="status">
        {seconds <= 60 ? "Less than a minute is left." : ""}
      </span>
    </span>
  );
}

function Asker({ of: a }: { of: Approval }) {
  const { tenant } = useSession();
  return (
    <dl class="asker">
      <div>
        <dt>
          <Icon name="bot" />
          <span class="hidden">Agent</span>
        </dt>
        <dd>
          <Untrusted text={a.agent} none="An unnamed agent" most={80} />
        </dd>
      </div>
      <div>
        <dt>
          <Icon name="person" />
          <span class="hidden">User</span>
        </dt>
        <dd>
          <Untrusted text={a.user} none="no user" most={80} />
        </dd>
      </div>
      {tenant === "-" && (
        <div>
          <dt>
            <Icon name="tenants" />
            <span class="hidden">Tenant</span>
          </dt>
          <dd>
            <Untrusted text={a.tenant} mono most={64} />
          </dd>
        </div>
      )}
      <div>
        <dt>
          <Icon name="clock" />
          <span class="hidden">Asked</span>
        </dt>
        <dd>
          <Ago time={a.create_time} />
        </dd>
      </div>
    </dl>
  );
}

/** The number of approvals so far, the people who may approve, and further groups. */
function Progress({ of: a, pending }: { of: Approval; pending: boolean }) {
  const time = useNow(a.escalate_time ? 1000 : Infinity);
  const needed = a.required_answers ?? 1,
    answers = a.answers ?? [];
  const given = answers.filter((n) => n.answer === "approved").length;
  const escalated = a.escalate_time !== undefined && Date.parse(a.escalate_time) <= time;
  const groups = a.groups ?? [];
  if (needed <= 1 && groups.length === 0 && !a.escalate_time && !(answers.length && needed > 1)) return null;
  return (
    <div class="progress small">
      {needed > 1 && (
        <p>
          <progress max={needed} value={given} aria-label="Approvals" />{" "}
          <b>
            {given} of {needed}
          </b>{" "}
          approvals
        </p>
      )}
      {needed > 1 && answers.length > 0 && (
        <ul>
          {answers.map((n, i) => (
            <li key={i}>
              <Untrusted text={n.user || n.by} none="somebody" most={80} />{" "}
              {n.answer === "denied" ? "denied" : "approved"}, <Ago time={n.time} />
              {n.comment && (
                <>
                  : <Untrusted text={n.comment} most={200} />
                </>
              )}
            </li>
          ))}
        </ul>
      )}
      {pending && groups.length > 0 && (
        <p class="dim">
          Asked:{" "}
          {groups.map((g, i) => (
            <>
              {i > 0 && ", "}
              <Untrusted text={g} most={80} />
            </>
          ))}
        </p>
      )}
      {pending &&
        a.escalate_time &&
        (escalated ? (
          <p>
            <Badge tone="wait">Escalated</Badge>{" "}
            <span class="dim">
              <Ago time={a.escalate_time} />
            </span>
          </p>
        ) : (
          <p class="dim">
            Escalates to{" "}
            {(a.escalate_groups ?? []).map((g, i) => (
              <>
                {i > 0 && ", "}
                <Untrusted text={g} most={80} />
              </>
            ))}{" "}
            in {span(Date.parse(a.escalate_time) - time)}
          </p>
        ))}
    </div>
  );
}

function Outcome({ of: a, state }: { of: Approval; state: string }) {
  const by = byOf(a);
  const first = useRef(true);
  const { say } = useSession();
  useEffect(() => {
    if (!first.current) say(`${toolInWords(a.tool)}: ${stateInWords(state)[1]}${by ? " by " + by : ""}.`);
    first.current = false;
  }, [state]);
  return (
    <p class={"note outcome " + stateInWords(state)[0]}>
      <b>{stateInWords(state)[1]}</b>
      {state !== "expired" && by && (
        <>
          {" "}
          by <Untrusted text={by} most={100} />
        </>
      )}
      {state !== "expired" && rememberedAs(a) && <> {rememberedAs(a)}</>}
      {state !== "expired" && a.valid_until && (
        <>
          {" "}
          until <Exact time={a.valid_until} />
        </>
      )}
      {state === "expired" ? (
        <>
          .{" "}
          {a.state === "approved"
            ? "It was approved, but the call did not come in time."
            : "There was no answer in time, so the call is denied."}
        </>
      ) : (
        a.answer_time && (
          <>
            , <Ago time={a.answer_time} />
          </>
        )
      )}
      {state !== "expired" && a.comment && (
        <>
          : <Untrusted text={a.comment} most={300} />
        </>
      )}
    </p>
  );
}

function Details({ of: a }: { of: Approval }) {
  return (
    <Facts
      of={[
        ["Session", <Untrusted text={a.session} mono none="none" most={120} />],
        ["Tenant", <Untrusted text={a.tenant} mono />],
        ["Asked at", <Exact time={a.create_time} />],
        ["Expires at", <Exact time={a.expire_time} />],
        ["Request", <Untrusted text={a.request_id} mono most={120} />],
        ["Approval", <Untrusted text={a.id} mono most={120} />],
      ]}
    />
  );
}
