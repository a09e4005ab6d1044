// The question before an answer: for which calls, until when, and why.
import { useContext, useLayoutEffect, useRef, useState } from "preact/hooks";
import { type Problem, post } from "../../api/client";
import type { Approval } from "../../api/types";
import { useClock } from "../../parts/now";
import { Dialog, Failure, Field } from "../../parts/parts";
import { useMay } from "../../parts/roles";
import { useSession } from "../../parts/session";
import { Untrusted } from "../../parts/Untrusted";
import { Arguments } from "./Arguments";
import { ApprovalsContext, stateOf } from "./feed";
import { SinceLast } from "./SinceLast";
import { ToolChange } from "./ToolChange";
import { useWhole } from "./whole";
import { byOf, stateInWords, toolInWords } from "./words";

type Remember = "call" | "session" | "always";

const spans: [number, string][] = [
  [3600, "1 hour"],
  [8 * 3600, "8 hours"],
  [86_400, "1 day"],
  [7 * 86_400, "1 week"],
  [30 * 86_400, "30 days"],
];
const conflicts = new Set(["APPROVAL_NOT_PENDING", "ALREADY_ANSWERED", "APPROVAL_UNKNOWN"]);

const secondsOf = (duration: string | undefined) => (duration ? parseFloat(duration) : undefined);

interface Props {
  of: Approval;
  deny: boolean;
  onClose(): void;
}

export function AnswerDialog({ of: a, deny, onClose }: Props) {
  const state = useClock((time) => stateOf(a, time));
  const { put, fetch } = useContext(ApprovalsContext);
  const { say } = useSession();
  const [remember, setRemember] = useState<Remember>("call");
  const [until, setUntil] = useState("");
  const [comment, setComment] = useState("");
  const [problem, setProblem] = useState<Problem>();
  const [busy, setBusy] = useState(false);
  const [lost, setLost] = useState(false);
  const needed = deny ? a.reason_required : a.reason_required_to_approve;
  const verb = deny ? "Deny" : "Approve";
  const send = async () => {
    setBusy(true);
    setProblem(undefined);
    const body: Record<string, unknown> = { tenant: a.tenant, remember, comment: comment.trim() };
    if (remember !== "call" && until) body["valid_for"] = until + "s";
    try {
      const after = await post<Approval>(
        `/v1/approvals/${encodeURIComponent(a.id)}/${deny ? "deny" : "approve"}`,
        body,
      );
      put(after);
      const more = after.state === "pending";
      say(
        more
          ? "Your approval is recorded. Other approvers have to approve it too."
          : `${toolInWords(a.tool)}: ${deny ? "denied" : "approved"}.${alsoInWords(after)}`,
      );
      onClose();
    } catch (err) {
      const p = err as Problem;
      if (p.status === 0) setLost(true);
      if (conflicts.has(p.reason) || p.status === 0) {
        try {
          put(await fetch(a.tenant, a.id));
        } catch {
          /* the problem says enough */
        }
      }
      setProblem(p);
      setBusy(false);
    }
  };
  const over = state !== "pending";
  const all = useWhole(a, !over);
  const unseen = !deny && (a.may_not_approve_why || !all.whole);
  // A question that has been answered elsewhere keeps its height: no button moves below a finger.
  const form = useRef<HTMLFormElement>(null),
    height = useRef(0);
  useLayoutEffect(() => {
    if (form.current) height.current = form.current.offsetHeight;
  });
  return (
    <Dialog title={`${verb} this call?`} onClose={onClose}>
      <p>
        <b>{toolInWords(a.tool)}</b> for <Untrusted text={a.user} none="no user" most={80} />, asked by{" "}
        <Untrusted text={a.agent} none="an unnamed agent" most={80} />
      </p>
      {over ? (
        <div class="answered" style={height.current ? { height: `${height.current}px` } : undefined}>
          <Conflict of={a} state={state} lost={lost} />
          <div class="actions">
            <button type="button" class="button primary" onClick={onClose}>
              Close
            </button>
          </div>
        </div>
      ) : (
        <form
          ref={form}
          class="stack"
          onSubmit={(e) => {
            e.preventDefault();
            void send();
          }}
        >
          <p class="dim small">
            <Untrusted text={a.capability} mono most={80} /> · <Untrusted text={a.tool} mono most={80} />
          </p>
          <ToolChange of={a} all />
          {all.whole && <SinceLast of={all.of} />}
          <div class="whole" tabIndex={0} role="region" aria-label="All arguments">
            <Arguments of={all.of} all />
          </div>
          {all.reading && <p class="note">Reading all arguments…</p>}
          {all.problem && <Failure problem={all.problem} retry={all.retry} />}
          {!deny && a.may_not_approve_why && (
            <p class="note wait">
              <Untrusted text={a.may_not_approve_why} />
            </p>
          )}
          <Choice deny={deny} of={a} value={remember} onChange={setRemember} />
          {remember !== "call" && <Until of={a} value={until} onChange={setUntil} />}
          <Field
            label={needed ? "Reason" : deny ? "Reason (optional)" : "Comment (optional)"}
            hint={deny ? "The caller gets its first 512 bytes." : undefined}
            error={problem?.reason === "REASON_REQUIRED" ? "A reason is required." : undefined}
          >
            {(id, about) => (
              <textarea
                id={id}
                class="input"
                aria-describedby={about}
                required={Boolean(needed)}
                maxLength={1000}
                value={comment}
                onInput={(e) => setComment(e.currentTarget.value)}
              />
            )}
          </Field>
          {problem && problem.reason !== "REASON_REQUIRED" && <Failure problem={problem} />}
          <div class="actions">
            <button type="button" class="button" onClick={onClose}>
              Cancel
            </button>
            <button
              type="submit"
              class={"button " + (deny ? "danger" : "approve")}
              disabled={busy || Boolean(unseen) || (Boolean(needed) && !comment.trim())}
            >
              {verb} {remember === "session" ? "for this session" : remember === "always" ? "always" : "once"}
            </button>
          </div>
        </form>
      )}
    </Dialog>
  );
}

/** What else the answer has answered. */
function alsoInWords({ also_answered: n = 0, more_may_wait: more }: Approval) {
  return (
    (n === 1
      ? " 1 other call that waited got the same answer."
      : n
        ? ` ${n} other calls that waited got the same answer.`
        : "") + (more ? " Further calls that it covers may still wait." : "")
  );
}

/** The approval was answered elsewhere, or expired. */
function Conflict({ of: a, state, lost }: { of: Approval; state: string; lost: boolean }) {
  const by = byOf(a);
  return (
    <p class="note wait" role="alert">
      {state === "expired" ? (
        "It expired before your answer, so the call is denied."
      ) : (
        <>
          It has been answered already: <b>{stateInWords(state)[1].toLowerCase()}</b>
          {by && (
            <>
              {" "}
              by <Untrusted text={by} most={100} />
            </>
          )}
          .{" "}
          {lost
            ? "The gateway's response to your answer was lost, so this may be your answer."
            : "Your answer was not counted."}
        </>
      )}
    </p>
  );
}

function Choice({
  of: a,
  deny,
  value,
  onChange,
}: {
  of: Approval;
  deny: boolean;
  value: Remember;
  onChange(r: Remember): void;
}) {
  const { may, why } = useMay("admin", a.tenant);
  if (a.level === "engine") return null; // an engine has its own memory
  const choices: [Remember, string, string, boolean][] = [
    ["call", "Once", deny ? "This call is refused." : "This call runs once, with these arguments.", true],
    [
      "session",
      "For this session",
      "Calls of this tool by this user and agent in this session, with any arguments.",
      Boolean(a.session),
    ],
    [
      "always",
      "Always",
      may
        ? "Calls of this tool by this user and agent, with any arguments. It becomes a rule of the policies."
        : `It would become a rule of the policies. ${why}.`,
      true,
    ],
  ];
  return (
    <fieldset>
      <legend class="hidden">For which calls</legend>
      {choices
        .filter(([, , , there]) => there)
        .map(([r, title, about]) => (
          <label class="choice" key={r}>
            <input
              type="radio"
              name="remember"
              value={r}
              disabled={r === "always" && !may}
              checked={value === r}
              onChange={() => onChange(r)}
            />
            <span>
              <b>{title}</b>
              <span class="dim small">{about}</span>
            </span>
          </label>
        ))}
    </fieldset>
  );
}

function Until({ of: a, value, onChange }: { of: Approval; value: string; onChange(v: string): void }) {
  const most = secondsOf(a.max_validity);
  return (
    <Field label="Expires" hint={most ? `At most ${Math.round(most / 360) / 10} hours, by rule.` : undefined}>
      {(id, about) => (
        <select
          id={id}
          class="input"
          aria-describedby={about}
          value={value}
          onChange={(e) => onChange(e.currentTarget.value)}
        >
          <option value="">{most ? "As late as the rule allows" : "After the gateway's default"}</option>
          {spans
            .filter(([s]) => !most || s <= most)
            .map(([s, name]) => (
              <option key={s} value={s}>
                After {name}
              </option>
            ))}
        </select>
      )}
    </Field>
  );
}
