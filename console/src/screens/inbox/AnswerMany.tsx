// One answer for several approvals. Each is answered by a request of its own.
import { useContext, useMemo, useState } from "preact/hooks";
import { type Problem, post } from "../../api/client";
import type { Approval } from "../../api/types";
import { useNow } from "../../parts/now";
import { Dialog, Failure, Field } from "../../parts/parts";
import { useSession } from "../../parts/session";
import { inWords } from "../../parts/Untrusted";
import { groupsOf } from "./alike";
import { ApprovalsContext, keyOf, stateOf } from "./feed";
import { ManyCalls, One } from "./ManyCalls";
import { approvable, withArguments } from "./readable";
import { useWholes } from "./whole";

/** The most approvals that one answer is for: a person has to read them all. */
export const mostAtOnce = 50;
const atOnce = 4;

type Verb = "approve" | "deny";
type Result = "done" | "waits" | Problem;

const resultOf = (r: Result | undefined) => (typeof r === "object" ? "failed" : r);

export function AnswerMany({ of: group, onClose }: { of: Approval[]; onClose(): void }) {
  const { items, put } = useContext(ApprovalsContext);
  const { say } = useSession();
  const [chosen] = useState(() => group.slice(0, mostAtOnce));
  const [without, setWithout] = useState<ReadonlySet<string>>(new Set());
  const [comment, setComment] = useState("");
  const [results, setResults] = useState<ReadonlyMap<string, Result>>(new Map());
  const [busy, setBusy] = useState(false);
  const [seen, setSeen] = useState(false);
  const alike = useMemo(() => chosen.length > 1 && groupsOf(chosen).length === 1, [chosen]);
  const time = useNow();
  const whole = useWholes(chosen);
  // The state is live. The arguments stay those that the person reads.
  const current = useMemo(() => {
    const live = new Map(items.map((a) => [keyOf(a), a]));
    return whole.of.map((a) => withArguments(live.get(keyOf(a)) ?? a, a));
  }, [whole.of, items]);
  const left = current.filter(
    (a) => stateOf(a, time) === "pending" && results.get(keyOf(a)) === undefined && !a.may_not_answer_why,
  );
  const wanted = left.filter((a) => !without.has(keyOf(a)));
  const toApprove = wanted.filter(approvable);
  const failed = current.filter((a) => typeof results.get(keyOf(a)) === "object");
  const needed = (verb: Verb) =>
    wanted.some((a) => (verb === "deny" ? a.reason_required : a.reason_required_to_approve)) && !comment.trim();

  const answer = async (verb: Verb) => {
    setBusy(true);
    const queue = verb === "approve" ? [...toApprove] : [...wanted];
    const all = queue.length;
    let done = 0;
    const one = async (a: Approval): Promise<Result> => {
      try {
        const after = await post<Approval>(`/v1/approvals/${encodeURIComponent(a.id)}/${verb}`, {
          tenant: a.tenant,
          comment: comment.trim(),
        });
        put(after);
        done++;
        return after.state === "pending" ? "waits" : "done";
      } catch (err) {
        return err as Problem;
      }
    };
    const worker = async () => {
      for (let a = queue.shift(); a; a = queue.shift()) {
        const key = keyOf(a),
          result = await one(a);
        setResults((r) => new Map(r).set(key, result));
      }
    };
    await Promise.all(Array.from({ length: atOnce }, worker));
    setBusy(false);
    say(`${done} of ${all} ${verb === "approve" ? "approved" : "denied"}.`);
    if (done === all) onClose();
  };

  const retry = () => setResults(new Map([...results].filter(([, r]) => typeof r === "string")));
  return (
    <Dialog
      title={`Answer ${chosen.length} ${alike ? "similar calls" : chosen.length === 1 ? "call" : "calls"}`}
      onClose={onClose}
    >
      {group.length > chosen.length && (
        <p>
          These are the first {chosen.length} of {group.length}.
        </p>
      )}
      <ManyCalls
        of={current}
        whole={whole.missing.size === 0}
        onSeen={() => setSeen(true)}
        head={(a) => (
          <One
            of={a}
            state={stateOf(a, time)}
            result={resultOf(results.get(keyOf(a)))}
            chosen={!without.has(keyOf(a))}
            onChoose={(on) => {
              const to = new Set(without);
              if (on) to.delete(keyOf(a));
              else to.add(keyOf(a));
              setWithout(to);
            }}
          />
        )}
      />
      {whole.problem ? (
        <Failure problem={whole.problem} retry={whole.retry} />
      ) : (
        whole.missing.size > 0 && <p class="note">Reading all arguments…</p>
      )}
      {!seen && whole.missing.size === 0 && <p class="note small">To approve, scroll to the end of the arguments.</p>}
      {failed.length > 0 && (
        <div class="failure" role="alert">
          <p>{failed.length === 1 ? "One answer failed:" : `${failed.length} answers failed:`}</p>
          <ul>
            {failed.map((a) => {
              const p = results.get(keyOf(a)) as Problem;
              return (
                <li key={keyOf(a)}>
                  <span class="mono small">{inWords(a.id, 60)}</span>: {inWords(p.detail, 300)}{" "}
                  <span class="mono small dim">{inWords(p.reason, 60)}</span>
                </li>
              );
            })}
          </ul>
          <button type="button" class="button" disabled={busy} onClick={retry}>
            Select them again
          </button>
        </div>
      )}
      <Field
        label={wanted.some((a) => a.reason_required) ? "Reason" : "Reason or comment (optional)"}
        hint="It is stored with each answer. The caller of a denied call gets its first 512 bytes."
      >
        {(id, about) => (
          <textarea
            id={id}
            class="input"
            aria-describedby={about}
            maxLength={1000}
            value={comment}
            onInput={(e) => setComment(e.currentTarget.value)}
          />
        )}
      </Field>
      <div class="actions">
        <button type="button" class="button" onClick={onClose}>
          {results.size ? "Close" : "Cancel"}
        </button>
        <button
          type="button"
          class="button danger"
          disabled={busy || !wanted.length || needed("deny")}
          onClick={() => void answer("deny")}
        >
          Deny {wanted.length}
        </button>
        <button
          type="button"
          class="button approve"
          disabled={busy || !seen || !toApprove.length || needed("approve")}
          onClick={() => void answer("approve")}
        >
          Approve {toApprove.length}
        </button>
      </div>
    </Dialog>
  );
}
