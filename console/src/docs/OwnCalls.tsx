// The last calls of a caller, with the reasons of those that were rejected.
import { useEffect } from "preact/hooks";
import { base } from "../api/client";
import { Trouble } from "../parts/ask";
import { useGet } from "../parts/load";
import { Badge, Card, type Column, Loading, Table } from "../parts/parts";
import { Ago } from "../parts/Time";
import { Untrusted } from "../parts/Untrusted";
import { tookOf } from "../screens/calls/Result";

interface OwnCall {
  request_id?: string;
  time?: string;
  user?: string;
  capability?: string;
  tool?: string;
  code?: string;
  reason?: string;
  outcome?: string;
  duration?: string;
}

const every = 5000;

/** OwnCalls shows the last calls, again after each turn. */
export function OwnCalls({ turn }: { turn: number }) {
  const { value, error, reload } = useGet<{ calls?: OwnCall[]; partial?: boolean }>(
    "/v1/calls",
    { page_size: 10 },
    every,
  );
  // A call is listed within a second and a half.
  useEffect(() => {
    if (turn === 0) return;
    const timer = window.setTimeout(reload, 1500);
    return () => window.clearTimeout(timer);
  }, [turn]);
  return (
    <Card title="Your last calls">
      {error?.reason === "CALLS_OFF" ? (
        <p class="dim">This gateway keeps no list of calls.</p>
      ) : (
        <>
          <Trouble problem={error} retry={reload} what="lists of calls" />
          {value ? (
            <Table
              label="Your last calls"
              columns={columns}
              rows={value.calls ?? []}
              keyOf={(c) => `${c.time} ${c.request_id}`}
              empty="There are none yet. Calls with your key, user and agent appear here, and rejected requests too."
            />
          ) : (
            !error && <Loading />
          )}
        </>
      )}
    </Card>
  );
}

const columns: Column<OwnCall>[] = [
  { title: "Ended", kind: "tight", cell: (c) => <Ago time={c.time} /> },
  {
    title: "Tool",
    kind: "wide",
    cell: (c) =>
      c.tool || c.capability ? (
        <>
          <Untrusted text={c.tool} mono most={80} /> <span class="dim">of </span>
          <Untrusted text={c.capability} mono most={80} />
        </>
      ) : (
        <span class="dim">none named</span>
      ),
  },
  { title: "Result", kind: "some", cell: (c) => <Result of={c} /> },
  {
    title: "Took",
    kind: "num",
    cell: (c) => tookOf(c),
  },
  { title: "Request", cell: (c) => <Untrusted text={c.request_id} mono most={40} /> },
];

const asked = ["APPROVAL_REQUIRED", "APPROVAL_PENDING"];

function Result({ of }: { of: OwnCall }) {
  if (of.reason) {
    return (
      <a href={`${base}/docs/errors#${encodeURIComponent(of.reason)}`}>
        <Badge tone={asked.includes(of.reason) ? "wait" : "bad"}>{of.reason}</Badge>
      </a>
    );
  }
  if (of.outcome && of.outcome !== "success") return <Badge tone="bad">{of.outcome.replace("_", " ")}</Badge>;
  return <Badge tone={of.code === "OK" ? "good" : "bad"}>{of.code ?? "–"}</Badge>;
}
