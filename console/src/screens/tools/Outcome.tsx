// What a call from the playground brought, as it comes, and the approval that it waits for.
import { useEffect, useRef } from "preact/hooks";
import type { Approval } from "../../api/types";
import { useGet } from "../../parts/load";
import { useNow } from "../../parts/now";
import { Badge, Card, Empty } from "../../parts/parts";
import { Ago, span } from "../../parts/Time";
import { inWords, Untrusted } from "../../parts/Untrusted";
import type { Caller, Told } from "./invoke";

export interface Run {
  state: "running" | "over";
  args: string;
  who: Caller;
  told: Told[];
  approval: string;
}

/** The most records that are shown; a stream may have any number. */
const most = 500;

export function Outcome({ run, onApproved }: { run: Run; onApproved(id: string): void }) {
  const end = run.told.at(-1);
  const asked = end?.kind === "ask" ? end : undefined;
  const chunks = run.told.filter((t) => t.kind === "chunk");
  return (
    <Card title="Answer" tools={<State run={run} end={end} />}>
      <div aria-live="polite">
        {run.approval && (
          <p class="note good">
            Approved as <Untrusted text={run.approval} mono />. The call went on.
          </p>
        )}
        {chunks.slice(-most).map((t, i) => (
          <Piece key={i} of={t} />
        ))}
        {chunks.length > most && (
          <p class="dim small">
            The last {most} of {chunks.length.toLocaleString("en")} parts.
          </p>
        )}
        {end?.kind === "done" && end.error && (
          <p class="note bad">
            The tool's own error: <Untrusted text={end.error} lines most={1000} />
          </p>
        )}
        {end?.kind === "done" && !end.error && chunks.length === 0 && <Empty>The result is empty.</Empty>}
        {end?.kind === "failed" && (
          <p class="note bad">
            <Untrusted text={end.detail} lines most={1000} /> <span class="mono small">{inWords(end.reason, 80)}</span>
          </p>
        )}
      </div>
      {asked && (
        <Waiting key={asked.id} asked={asked} tenant={run.who.tenant} onApproved={() => onApproved(asked.id)} />
      )}
    </Card>
  );
}

function State({ run, end }: { run: Run; end: Told | undefined }) {
  if (run.state === "running")
    return <Badge tone="info">{run.told.length ? "streaming" : "waiting for the first part"}</Badge>;
  if (end?.kind === "ask") return <Badge tone="wait">needs an approval</Badge>;
  if (end?.kind === "done") return <Badge tone={end.error ? "bad" : "good"}>{end.error ? "tool error" : "done"}</Badge>;
  return <Badge tone="bad">failed</Badge>;
}

function Piece({ of }: { of: Told }) {
  if (of.kind !== "chunk") return null;
  const plain = of.base64 === undefined ? (JSON.stringify(of.data, null, 2) ?? "") : textOf(of.base64);
  const text = plain ?? of.base64 ?? "";
  return (
    <div class="code record" tabIndex={0} role="group" aria-label="Part of the answer">
      {plain === undefined && <span class="dim">base64: </span>}
      <Untrusted text={text} lines most={20_000} />
    </div>
  );
}

/** textOf is the text in base64, or undefined if it is none: a part of a result need not be JSON by itself. */
function textOf(base64: string): string | undefined {
  try {
    return new TextDecoder("utf-8", { fatal: true }).decode(Uint8Array.from(atob(base64), (c) => c.charCodeAt(0)));
  } catch {
    return undefined;
  }
}

/** Waiting follows an approval until it is answered. */
function Waiting({ asked, tenant, onApproved }: { asked: Told & { kind: "ask" }; tenant: string; onApproved(): void }) {
  const { value: a } = useGet<Approval>(`/v1/approvals/${encodeURIComponent(asked.id)}`, { tenant }, 1500);
  const went = useRef(false);
  const approved = a?.state === "approved";
  useEffect(() => {
    if (!approved || went.current) return;
    went.current = true;
    onApproved();
  }, [approved]);
  const time = useNow();
  const left = asked.expires ? Date.parse(asked.expires) - time : 0;
  if (a?.state === "denied")
    return (
      <p class="note bad">
        Denied by <Untrusted text={a.answered_by} most={100} />
        {a.comment && (
          <>
            : <Untrusted text={a.comment} lines most={500} />
          </>
        )}
      </p>
    );
  if (a?.state === "expired" || (left < -2000 && !approved)) return <p class="note bad">No answer in time.</p>;
  return (
    <div class="asked">
      <p>
        <b>A person has to approve this call.</b> It continues by itself after the approval.
      </p>
      <p class="small">
        <Untrusted text={asked.id} mono /> · asked <Ago time={a?.create_time} />
        {left > 0 && <> · {span(left)} left</>}
      </p>
      <p>
        <a class="button small" href={"#/inbox/" + encodeURIComponent(asked.id)} target="_blank" rel="noopener">
          Open it in the inbox
        </a>
      </p>
    </div>
  );
}
