// One answer for several approvals that are alike. Each is answered by a request of its own.
import { useContext, useEffect, useRef, useState } from "preact/hooks";
import { type Problem, post } from "../../api/client";
import type { Approval } from "../../api/types";
import { useNow } from "../../parts/now";
import { Badge, Dialog, Failure, Field } from "../../parts/parts";
import { useSession } from "../../parts/session";
import { Ago } from "../../parts/Time";
import { inWords, Untrusted } from "../../parts/Untrusted";
import { ComparedCalls } from "./Compared";
import { ApprovalsContext, keyOf, stateOf } from "./feed";
import { useWholes } from "./whole";
import { stateInWords, toolInWords } from "./words";

/** The most approvals that one answer is for: a person has to read them all. */
export const mostAtOnce = 50;
const atOnce = 4;

type Verb = "approve" | "deny";
type Result = "done" | "waits" | Problem;

export function AnswerMany({ of: group, onClose }: { of: Approval[]; onClose(): void }) {
  const { items, put } = useContext(ApprovalsContext);
  const { say, tenant } = useSession();
  const [chosen] = useState(() => group.slice(0, mostAtOnce));
  const [without, setWithout] = useState<ReadonlySet<string>>(new Set());
  const [comment, setComment] = useState("");
  const [results, setResults] = useState<ReadonlyMap<string, Result>>(new Map());
  const [busy, setBusy] = useState(false);
  const [seen, setSeen] = useState(false);
  const time = useNow();
  const whole = useWholes(chosen);
  const current = whole.of.map((a) => {
    const live = items.find((i) => keyOf(i) === keyOf(a));
    const { arguments: text = "", arguments_json = "", arguments_excerpt = false } = a;
    return live ? { ...live, arguments: text, arguments_json, arguments_excerpt } : a;
  });
  const left = current.filter(
    (a) => stateOf(a, time) === "pending" && results.get(keyOf(a)) === undefined && !a.may_not_answer_why,
  );
  const wanted = left.filter((a) => !without.has(keyOf(a)));
  const approvable = wanted.filter((a) => !a.may_not_approve_why && !whole.missing.has(keyOf(a)));
  const failed = current.filter((a) => typeof results.get(keyOf(a)) === "object");
  const needed = (verb: Verb) =>
    wanted.some((a) => (verb === "deny" ? a.reason_required : a.reason_required_to_approve)) && !comment.trim();

  const answer = async (verb: Verb) => {
    setBusy(true);
    const queue = verb === "approve" ? [...approvable] : [...wanted];
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
    <Dialog title={`Answer ${chosen.length} calls that are alike`} onClose={onClose}>
      <p>
        <b>{toolInWords(chosen[0]!.tool)}</b> for <Untrusted text={chosen[0]!.user} none="no user" most={80} />, asked
        by <Untrusted text={chosen[0]!.agent} none="an agent without a name" most={80} />
        {group.length > chosen.length && `. These are the first ${chosen.length} of ${group.length}`}
      </p>
      <p class="dim small">
        <Untrusted text={chosen[0]!.capability} mono most={80} /> · <Untrusted text={chosen[0]!.tool} mono most={80} />
        {tenant === "-" && (
          <>
            {" "}
            · tenant <Untrusted text={chosen[0]!.tenant} mono most={64} />
          </>
        )}
      </p>
      <div class="whole many" tabIndex={0} role="region" aria-label="All arguments">
        <ComparedCalls
          of={current}
          head={(a) => (
            <One
              of={a}
              state={stateOf(a, time)}
              result={results.get(keyOf(a))}
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
        {whole.missing.size === 0 && <End onSeen={() => setSeen(true)} />}
      </div>
      {whole.problem ? (
        <Failure problem={whole.problem} retry={whole.retry} />
      ) : (
        whole.missing.size > 0 && <p class="note">Reading all arguments…</p>
      )}
      {!seen && whole.missing.size === 0 && <p class="note small">To approve, scroll to the end of the arguments.</p>}
      {failed.length > 0 && (
        <div class="failure" role="alert">
          <p>{failed.length === 1 ? "One answer was not taken:" : `${failed.length} answers were not taken:`}</p>
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
            Choose them again
          </button>
        </div>
      )}
      <Field
        label={wanted.some((a) => a.reason_required) ? "Reason" : "Reason or comment (optional)"}
        hint="It is stored with each answer. The caller of a denied call gets the first 512 bytes of it."
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
          disabled={busy || !seen || !approvable.length || needed("approve")}
          onClick={() => void answer("approve")}
        >
          Approve {approvable.length}
        </button>
      </div>
    </Dialog>
  );
}

/** One is the head of one call, with its choice, and what became of it. */
function One({
  of: a,
  state,
  result,
  chosen,
  onChoose,
}: {
  of: Approval;
  state: string;
  result: Result | undefined;
  chosen: boolean;
  onChoose(on: boolean): void;
}) {
  const open = state === "pending" && result === undefined;
  const why = a.may_not_answer_why || a.may_not_approve_why;
  return (
    <>
      <label class="row">
        <input
          type="checkbox"
          checked={chosen && open && !a.may_not_answer_why}
          disabled={!open || Boolean(a.may_not_answer_why)}
          onChange={(e) => onChoose(e.currentTarget.checked)}
        />
        <span class="mono small">{inWords(a.id, 60)}</span>
        <span class="dim small">
          <Ago time={a.create_time} />
        </span>
        {!open && typeof result !== "object" && (
          <Badge tone={stateInWords(state)[0]}>{result === "waits" ? "Counted" : stateInWords(state)[1]}</Badge>
        )}
      </label>
      {why && (
        <p class="note wait">
          <Untrusted text={why} />
        </p>
      )}
    </>
  );
}

/** End is the end of what has to be read. It tells when it comes into sight. */
function End({ onSeen }: { onSeen(): void }) {
  const end = useRef<HTMLParagraphElement>(null);
  useEffect(() => {
    const watch = new IntersectionObserver((all) => {
      if (all.some((e) => e.isIntersecting)) onSeen();
    });
    watch.observe(end.current!);
    return () => watch.disconnect();
  }, []);
  return (
    <p class="dim small" ref={end}>
      These are all arguments.
    </p>
  );
}
