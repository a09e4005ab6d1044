// Everything that the gateway has recorded of one call.
import type { ComponentChildren } from "preact";
import type { RecentCall } from "../../api/types";
import { Verdict } from "../../parts/ask";
import { Badge, Dialog, Empty, Facts } from "../../parts/parts";
import { Exact } from "../../parts/Time";
import { inWords, Untrusted } from "../../parts/Untrusted";
import { explainAddress } from "../policies/address";
import { Result, tookOf } from "./Result";

export function CallDialog({ of: c, id, onClose }: { of: RecentCall | undefined; id: string; onClose(): void }) {
  return (
    <Dialog title="Call" onClose={onClose}>
      {c ? (
        <Details of={c} />
      ) : (
        <Empty>
          <b>This call is not shown</b>The call <Untrusted text={id} mono most={80} /> does not match the filters, or is
          no longer among the last ones.
        </Empty>
      )}
    </Dialog>
  );
}

/** The operators' own link to a trace. Anything but http and https would be a script or worse. */
function traceOf(link: string | undefined): string | undefined {
  try {
    const url = new URL(link ?? "");
    return url.protocol === "https:" || url.protocol === "http:" ? url.href : undefined;
  } catch {
    return undefined;
  }
}

function Details({ of: c }: { of: RecentCall }) {
  const text = (v: string | undefined, none = "–") => <Untrusted text={v} mono none={none} most={200} />;
  const bytes = (v: string | undefined) => `${Number(v ?? 0).toLocaleString("en")} B`;
  const facts: [string, ComponentChildren][] = [
    [
      "Tool",
      <>
        {text(c.capability)} / {text(c.tool)}
      </>,
    ],
    [
      "Result",
      <>
        <Result of={c} />
        {c.reason && <> {text(c.reason)}</>}
      </>,
    ],
    ["Ended", <Exact time={c.time} />],
    ["Took", tookOf(c)],
    ["Tenant", text(c.tenant)],
    ["User", text(c.user)],
    ["Agent", text(c.agent)],
    ["Key", text(c.key)],
    ["Code", text(c.code)],
    ["Protocol", text(c.protocol)],
    ["Method", text(c.method)],
    ["Listener", text(c.listener, "public")],
    ["Replica", text(c.replica)],
    ["Backend", text(c.backend, "none")],
    ["Attempts", c.attempts ?? 0],
    ["Bytes in, out", `${bytes(c.bytes_in)}, ${bytes(c.bytes_out)}`],
    ["Request", text(c.request_id)],
    ["Trace", text(c.trace_id)],
  ];
  if (c.failure) facts.push(["Failure", text(c.failure)]);
  if (c.limit_shadow) facts.push(["Shadow limit", text(c.limit_shadow)]);
  const trace = traceOf(c.trace_link),
    decided = c.policy?.level || c.policy?.decision;
  return (
    <>
      {c.replayed && (
        <p>
          <Badge tone="info">replayed</Badge> It got the response of an earlier call with its idempotency key.
        </p>
      )}
      <Facts of={facts} />
      {decided && (
        <p>
          Policy: <Verdict of={c.policy?.decision} /> at the level{" "}
          <b>{inWords(c.policy?.level ?? "", 40) || "unknown"}</b>
          {c.policy?.candidate && (
            <>
              ; candidates: <Verdict of={c.policy.candidate} />
            </>
          )}
        </p>
      )}
      <div class="actions">
        {c.capability && c.tool && (
          <a class="button" href={explainAddress(c)}>
            Why this policy
          </a>
        )}
        {c.approval_id && (
          <a class="button" href={"#/inbox/" + encodeURIComponent(c.approval_id)}>
            Approval
          </a>
        )}
        {trace ? (
          <a class="button primary" href={trace} target="_blank" rel="noopener noreferrer">
            Trace
          </a>
        ) : (
          <span class="dim small">{c.trace_id ? "No traces.link is configured." : "The call was not traced."}</span>
        )}
      </div>
    </>
  );
}
