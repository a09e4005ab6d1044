// All arguments of several calls, to read before one answer. Those that are alike are compared.
import type { ComponentChildren } from "preact";
import { useEffect, useMemo, useRef } from "preact/hooks";
import type { Approval } from "../../api/types";
import { Badge } from "../../parts/parts";
import { useSession } from "../../parts/session";
import { Ago } from "../../parts/Time";
import { inWords, Untrusted } from "../../parts/Untrusted";
import { groupsOf } from "./alike";
import { ComparedCalls } from "./Compared";
import { keyOf } from "./key";
import { stateInWords, toolInWords } from "./words";

interface Props {
  of: Approval[];
  /** What stands before the arguments of each call. */
  head(a: Approval): ComponentChildren;
  /** All arguments are there. */
  whole: boolean;
  /** The end of them came into sight. */
  onSeen(): void;
}

export function ManyCalls({ of, head, whole, onSeen }: Props) {
  const groups = useMemo(() => groupsOf(of), [of]);
  return (
    <div class="whole many" tabIndex={0} role="region" aria-label="All arguments">
      {groups.map((group) => (
        <section key={keyOf(group[0]!)} class="calls">
          <Asked of={group[0]!} title={groups.length > 1} />
          <ComparedCalls of={group} head={head} />
        </section>
      ))}
      {whole && <End onSeen={onSeen} />}
    </div>
  );
}

/** Asked names the tool, the user and the agent of similar calls. */
function Asked({ of: a, title }: { of: Approval; title: boolean }) {
  const { tenant } = useSession();
  const tool = toolInWords(a.tool);
  return (
    <>
      {title && <h3>{tool}</h3>}
      <p>
        <b>{title ? "Called" : tool}</b> for <Untrusted text={a.user} none="no user" most={80} />, asked by{" "}
        <Untrusted text={a.agent} none="an unnamed agent" most={80} />
      </p>
      <p class="dim small">
        <Untrusted text={a.capability} mono most={80} /> · <Untrusted text={a.tool} mono most={80} />
        {tenant === "-" && (
          <>
            {" "}
            · tenant <Untrusted text={a.tenant} mono most={64} />
          </>
        )}
      </p>
    </>
  );
}

interface OneProps {
  of: Approval;
  state: string;
  /** What became of its answer: it was taken, it counts as one of several, or it failed. */
  result: "done" | "waits" | "failed" | undefined;
  chosen: boolean;
  onChoose(on: boolean): void;
}

/** One is the head of one call, with its choice, and what became of it. */
export function One({ of: a, state, result, chosen, onChoose }: OneProps) {
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
        {!open && result !== "failed" && (
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
