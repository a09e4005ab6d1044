// The last calls of all replicas, as they end.
import { useEffect, useRef, useState } from "preact/hooks";
import { now } from "../../api/client";
import type { CallsPage, RecentCall } from "../../api/types";
import { Choice, Text, Trouble, useSlow } from "../../parts/ask";
import { Export } from "../../parts/Export";
import { useEvents } from "../../parts/feeds";
import { useList } from "../../parts/list";
import { Card, type Column, Loading, More, own, Screen, Table } from "../../parts/parts";
import { besides, useFilters } from "../../parts/route";
import { useSession } from "../../parts/session";
import { secondsOf, timeOf } from "../../parts/sorted";
import { useStart } from "../../parts/start";
import { exactTime } from "../../parts/Time";
import { inWords, Untrusted } from "../../parts/Untrusted";
import { CallDialog } from "./Call";
import { endedAt } from "./ended";
import { Result, tookOf } from "./Result";
import { hoursOf, When } from "./When";

const most = 500;
/** Calls come faster than anybody reads: they are shown together. */
const gathered = 400;

export function Calls({ rest }: { rest: string[] }) {
  const { tenant } = useSession();
  const [of, set] = useFilters(fields);
  const when = of.when;
  const start = useStart(hoursOf(when));
  const put = (field: Field) => (text: string) => set(field, text);
  const slow = useSlow(of);
  const filter = {
    tenant,
    query: slow.query.trim(),
    capability: slow.capability.trim(),
    tool: slow.tool.trim(),
    user: slow.user.trim(),
    agent: slow.agent.trim(),
    reason: slow.reason.trim() || own(reasons, slow.code),
    outcome: slow.code === "tool" ? "*" : "",
    code: own(reasons, slow.code) || slow.code === "tool" ? "" : slow.code,
    min_duration: slow.slower,
  };
  const {
    items,
    page,
    error,
    loading,
    more,
    reload,
    change,
    of: request,
  } = useList<RecentCall, CallsPage>("/v1/calls", "calls", {
    ...filter,
    page_size: most,
    start_time: start,
  });
  const [paused, setPaused] = useState(false);
  const [held, setHeld] = useState(0);
  const fresh = useRef<RecentCall[]>([]);
  const show = () => {
    const arrived = fresh.current;
    fresh.current = [];
    setHeld(0);
    if (arrived.length) change((all) => merged(arrived, all));
  };
  // What came by the old filter does not belong to the new list.
  useEffect(() => {
    fresh.current = [];
    setHeld(0);
  }, [JSON.stringify(filter)]);
  const timer = useRef<number | undefined>(undefined);
  useEffect(() => () => window.clearTimeout(timer.current), []);
  const stop = useRef(paused);
  stop.current = paused;
  const past = useRef(false);
  past.current = start !== "";
  const showNow = useRef(show);
  showNow.current = show;
  useEvents(
    "/v1/calls/events",
    filter,
    (e) => {
      const c = parse(e.data);
      if (!c || past.current) return;
      fresh.current = [c, ...fresh.current].slice(0, most);
      if (stop.current) setHeld(fresh.current.length);
      else
        timer.current ??= window.setTimeout(() => {
          timer.current = undefined;
          if (!stop.current) showNow.current();
        }, gathered);
    },
    reload,
  );
  const pause = () => {
    setPaused(!paused);
    if (paused) show();
  };
  const opened = rest[0];
  return (
    <Screen
      title="Calls"
      about={start ? "Calls of all replicas" : `The last ${most} calls of all replicas, as they end`}
      tools={
        <>
          <Export of={request} name="calls" />
          {!start && (
            <button type="button" class="button" aria-pressed={paused} onClick={pause}>
              {paused ? `Resume${held ? ` (${held} new)` : ""}` : "Pause"}
            </button>
          )}
        </>
      }
    >
      <div class="stack">
        <Filters of={of} put={put} seen={items} />
        <When value={when} onInput={put("when")} incomplete={Boolean(page?.incomplete)} since={page?.searched_since} />
        <Trouble problem={error} retry={reload} what="its calls" />
        {page?.partial && (
          <p class="note wait">Redis is away: these are the calls of one replica, {inWords(page.replica ?? "", 60)}.</p>
        )}
        {loading && items.length === 0 && !error && <Loading />}
        {page && (
          <Card>
            <Table
              label="Calls"
              more={start ? more : undefined}
              columns={columns}
              rows={items}
              keyOf={(c) => c.id}
              empty={
                !start
                  ? "No calls match yet. New ones appear automatically."
                  : more
                    ? "None found so far."
                    : "No calls of that time match."
              }
            />
          </Card>
        )}
        {start && <More more={more} loading={loading} shown={items.length} />}
      </div>
      {opened && !loading && (
        <CallDialog
          of={items.find((c) => c.id === opened)}
          id={opened}
          onClose={() => {
            location.hash = besides("#/calls");
          }}
        />
      )}
    </Screen>
  );
}

const fields = ["query", "capability", "tool", "user", "agent", "reason", "code", "slower", "when"] as const;
type Field = (typeof fields)[number];
type Put = (field: Field) => (text: string) => void;

function Filters({ of, put, seen }: { of: Record<Field, string>; put: Put; seen: RecentCall[] }) {
  const those = (field: "capability" | "tool" | "reason") =>
    [...new Set(seen.map((c) => c[field]).filter((v): v is string => Boolean(v)))].slice(0, 50);
  return (
    <div class="filters" role="search" aria-label="Filter calls">
      <Text label="Find" value={of.query} onInput={put("query")} placeholder="id or text" />
      <Text
        label="Capability"
        value={of.capability}
        onInput={put("capability")}
        placeholder="any"
        of={those("capability")}
      />
      <Text label="Tool" value={of.tool} onInput={put("tool")} placeholder="any" of={those("tool")} />
      <Text label="User" value={of.user} onInput={put("user")} placeholder="any" />
      <Text label="Agent" value={of.agent} onInput={put("agent")} placeholder="any" />
      <Text label="Reason" value={of.reason} onInput={put("reason")} placeholder="any" of={["*", ...those("reason")]} />
      <Choice
        label="Result"
        value={of.code}
        onInput={put("code")}
        of={[
          ["", "any"],
          ["asked", "asked"],
          ["refused", "refused"],
          ["tool", "tool error"],
          ["*", "any but OK"],
          ["OK", "OK"],
          ["PERMISSION_DENIED", "PERMISSION_DENIED"],
          ["RESOURCE_EXHAUSTED", "RESOURCE_EXHAUSTED"],
          ["UNAVAILABLE", "UNAVAILABLE"],
          ["DEADLINE_EXCEEDED", "DEADLINE_EXCEEDED"],
          ["FAILED_PRECONDITION", "FAILED_PRECONDITION"],
          ["INTERNAL", "INTERNAL"],
        ]}
      />
      <Choice
        label="Took at least"
        value={of.slower}
        onInput={put("slower")}
        of={[
          ["", "any time"],
          ["100ms", "100 ms"],
          ["500ms", "500 ms"],
          ["1s", "1 s"],
          ["5s", "5 s"],
          ["30s", "30 s"],
        ]}
      />
    </div>
  );
}

const columns: Column<RecentCall>[] = [
  {
    title: "Ended",
    by: (c) => timeOf(c.time),
    cell: (c) =>
      c.time ? (
        <time dateTime={c.time} title={exactTime(c.time)}>
          {endedAt(c.time, now())}
        </time>
      ) : (
        "–"
      ),
  },
  {
    title: "Tool",
    kind: "wide",
    by: (c) => `${c.capability ?? ""} ${c.tool || c.method || ""}`.trim(),
    cell: (c) => (
      <a class="plain" href={besides("#/calls/" + encodeURIComponent(c.id))}>
        <Untrusted text={c.capability} mono none="no capability" most={60} /> <span class="dim">/</span>{" "}
        <Untrusted text={c.tool} mono none={inWords(c.method ?? "", 40) || "no tool"} most={80} />
      </a>
    ),
  },
  { title: "Tenant", by: (c) => c.tenant, cell: (c) => <Untrusted text={c.tenant} mono none="no tenant" most={60} /> },
  {
    title: "By",
    by: (c) => c.user || c.agent || c.key,
    cell: (c) => (
      <div class="facts-line">
        {c.user && <Untrusted text={c.user} most={60} />}
        {c.agent && (
          <span class="dim">
            <Untrusted text={c.agent} most={60} />
          </span>
        )}
        {!c.user && !c.agent && <Untrusted text={c.key} mono most={60} />}
      </div>
    ),
  },
  { title: "Result", by: (c) => c.reason || c.code, cell: (c) => <Result of={c} /> },
  { title: "Took", kind: "num", by: (c) => secondsOf(c.duration), cell: (c) => tookOf(c) },
];

/** Results that are reasons for the gateway, not codes. */
const reasons: Record<string, string> = { asked: "APPROVAL_REQUIRED", refused: "*" };

function merged(fresh: RecentCall[], old: RecentCall[]): RecentCall[] {
  const ids = new Set<string>();
  return [...fresh, ...old].filter((c) => !ids.has(c.id) && ids.add(c.id)).slice(0, most);
}

function parse(data: string): RecentCall | undefined {
  try {
    const c = JSON.parse(data) as RecentCall;
    return c && typeof c.id === "string" && c.id ? c : undefined;
  } catch {
    return undefined;
  }
}
