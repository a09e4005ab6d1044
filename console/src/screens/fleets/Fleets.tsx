// The backends of all capabilities: state, drains, registrations.
import { useMemo, useState } from "preact/hooks";

import type { Backend, Fleet, FleetsPage, HistorySums, LastHour, Past } from "../../api/types";
import { Choice, useSlow } from "../../parts/ask";
import { Export } from "../../parts/Export";
import { History } from "../../parts/history/History";
import { duration } from "../../parts/history/steps";
import { useList } from "../../parts/list";
import { useGet } from "../../parts/load";
import {
  Badge,
  Card,
  type Column,
  Empty,
  Failure,
  Loading,
  More,
  own,
  Screen,
  Search,
  Table,
  type Tone,
} from "../../parts/parts";
import { allTenants, useMay } from "../../parts/roles";
import { useFilters } from "../../parts/route";
import { timeOf, type Value } from "../../parts/sorted";
import { Ago } from "../../parts/Time";
import { inWords, Untrusted } from "../../parts/Untrusted";
import { VirtualList } from "../../parts/VirtualList";
import { DrainDialog, WithdrawDialog } from "./Drain";

const every = 4000;

/** A card of the list shows so many backends; those that fail come first. */
const few = 5;

const states: [string, string][] = [
  ["", "any"],
  ["failing", "failing: down or ejected"],
  ["down", "down"],
  ["ejected", "ejected"],
  ["draining", "draining"],
  ["unknown", "unknown"],
  ["ramping", "ramping"],
  ["off", "off"],
  ["up", "up"],
];

const orders: [string, string][] = [
  ["", "failing first"],
  ["name", "by name"],
];

export function Fleets({ rest }: { rest: string[] }) {
  const [{ query, state, order }, set] = useFilters(["query", "state", "order"]);
  const only = rest[0] ?? "",
    backend = rest[1] ?? "";
  const measured = useMeasured(only);
  const wanted = useSlow(query.trim());
  const filter = only ? { capability: only } : { query: wanted, state, backends: few };
  const { items, page, error, loading, more, reload, of } = useList<Fleet, FleetsPage>(
    "/v1/fleets",
    "fleets",
    { ...filter, order_by: order === "name" ? "" : "failing", page_size: 50 },
    every,
  );
  const shown = useMemo(() => (backend ? items.map((f) => narrowed(f, backend)) : items), [items, backend]);
  const missing = Boolean(only && page && !shown.some((f) => !backend || f.backends.length));
  const past = "/v1/history/fleets/" + encodeURIComponent(only),
    ofBackend: Record<string, string> = backend ? { backend } : {};
  const before = useGet<Past>(missing ? past : undefined, { ...ofBackend, span: "7d" });
  const measuredBefore = missing && Boolean(before.value?.sums?.calls);
  const filtered = !only && Boolean(query || state);
  return (
    <Screen
      title={only ? inWords([only, backend].filter(Boolean).join(" · "), 120) : "Fleets"}
      about={only ? (backend ? "A backend of a fleet" : "A fleet") : page && <About of={page} filtered={filtered} />}
      tools={
        only ? (
          <span class="row">
            {backend && (
              <a class="button" href={"#/fleets/" + encodeURIComponent(only)}>
                The whole fleet
              </a>
            )}
            <a class="button" href="#/fleets">
              All fleets
            </a>
          </span>
        ) : (
          <>
            <Search label="Search by capability, address or reason" value={query} onInput={(v) => set("query", v)} />
            <Export of={{ ...of, params: { ...of.params, backends: "" } }} name="fleets" />
          </>
        )
      }
    >
      <div class="stack">
        {!only && (
          <div class="filters bar">
            <Choice label="With a backend that is" value={state} of={states} onInput={(v) => set("state", v)} />
            <Choice label="Order" value={order} of={orders} onInput={(v) => set("order", v)} />
          </div>
        )}
        <Failure problem={error} retry={reload} />
        {loading && items.length === 0 && !error && <Loading />}
        {missing && (
          <Empty>
            <b>
              {items.length ? "The fleet has no backend " : "There is no fleet "}
              <Untrusted text={items.length ? backend : only} mono most={100} />
            </b>
            It may have been removed, or the address is wrong.
            {measuredBefore && " The charts show earlier measurements."}
          </Empty>
        )}
        {only && (!missing || measuredBefore) && <History key={rest.join("/")} path={past} params={ofBackend} />}
        <VirtualList
          label="Fleets"
          items={missing ? [] : shown}
          keyOf={(f) => f.name}
          total={page?.total_size}
          estimate={300}
          whole={5}
          row={(f) => <FleetCard fleet={f} measured={measured} onChange={reload} />}
        />
        {!only && page && items.length === 0 && (
          <Empty>
            <b>{filtered ? "No fleets match" : "There are no fleets"}</b>
            {filtered
              ? "All fleets were searched. Try another word or state."
              : "Configure one under fleets, or let a backend register."}
          </Empty>
        )}
        <More more={more} shown={items.length} total={page?.total_size} />
      </div>
    </Screen>
  );
}

/** narrowed is a fleet with one of its backends. */
const narrowed = (f: Fleet, backend: string): Fleet => ({
  ...f,
  backends: f.backends.filter((b) => b.addr === backend),
});

type Measured = Map<string, HistorySums>;
const named = (capability: string, addr: string) => `${capability}\n${addr}`;

/** useMeasured has the calls of the last hour by backend, as all replicas measured them. */
function useMeasured(capability: string): Measured {
  const { value } = useGet<LastHour>("/v1/history", { of: "backends", capability }, 30_000);
  return useMemo(
    () => new Map((value?.rows ?? []).map((r) => [named(r.capability ?? "", r.name ?? ""), r.sums ?? {}])),
    [value],
  );
}

/** About says how many fleets there are, and how many of their backends fail. */
function About({ of, filtered }: { of: FleetsPage; filtered: boolean }) {
  const many = (n: number, one: string) => `${n.toLocaleString("en")} ${one}${n === 1 ? "" : "s"}`;
  return (
    <>
      {many(of.total_size, "fleet")}
      {filtered ? (of.total_size === 1 ? " matches" : " match") : ""}, as the replica {inWords(of.gateway.replica, 60)}{" "}
      sees
      {of.total_size === 1 ? " it" : " them"}
      {of.failing_count > 0 && (
        <>
          {" · "}
          <a href="#/fleets?state=failing">
            {many(of.failing_count, "backend")} {of.failing_count === 1 ? "fails" : "fail"}
          </a>
        </>
      )}
    </>
  );
}

const tones: Record<string, Tone> = {
  up: "good",
  ramping: "info",
  draining: "wait",
  unknown: "plain",
  off: "plain",
  ejected: "bad",
  down: "bad",
};

function FleetCard({ fleet, measured, onChange }: { fleet: Fleet; measured: Measured; onChange(): void }) {
  const { may, why } = useMay("operator", allTenants);
  const [asked, ask] = useState<{ what: "drain" | "undrain" | "withdraw"; backend: Backend }>();
  // Some of the backends of a fleet are not sorted: the others may come before them.
  const whole = fleet.backends.length === fleet.backend_count;
  const by = (value: (b: Backend) => Value) => (whole ? { by: value } : {});
  const columns: Column<Backend>[] = [
    {
      title: "Backend",
      kind: "wide",
      ...by((b) => b.addr),
      cell: (b) => <Where fleet={fleet.capability} backend={b} />,
    },
    { title: "State", kind: "some", ...by((b) => b.state), cell: (b) => <State backend={b} /> },
    { title: "Since", kind: "tight", ...by((b) => timeOf(b.since)), cell: (b) => <Ago time={b.since} suffix="" /> },
    {
      title: "In flight",
      kind: "num",
      ...by((b) => b.in_flight),
      cell: (b) => (
        <>
          {b.in_flight}
          {b.max_concurrent ? <span class="dim"> / {b.max_concurrent}</span> : null}
        </>
      ),
    },
    {
      title: "p50 / p99",
      kind: "num",
      ...by((b) => measured.get(named(fleet.capability, b.addr))?.p99_ms),
      cell: (b) => {
        const sums = measured.get(named(fleet.capability, b.addr));
        return sums?.p99_ms ? (
          <span title="Latency of the calls of the last hour at all replicas">
            {duration(sums.p50_ms)} <span class="dim">/ {duration(sums.p99_ms)}</span>
          </span>
        ) : (
          <span class="dim">–</span>
        );
      },
    },
    { title: "Probed by", cell: (b) => <Untrusted text={b.probed_by} mono most={40} /> },
    {
      title: "Actions",
      kind: "num",
      cell: (b) => <Actions backend={b} why={may ? undefined : why} ask={(what) => ask({ what, backend: b })} />,
    },
  ];
  const close = () => ask(undefined);
  return (
    <Card
      title={
        <a class="plain" href={"#/fleets/" + encodeURIComponent(fleet.capability)}>
          <Untrusted text={fleet.capability} most={100} />
        </a>
      }
      tools={
        <span class="row">
          {fleet.panic && (
            <Badge tone="bad" title="Too few backends are healthy, so calls go to all that are not known to be down">
              panic
            </Badge>
          )}
          {fleet.waiting ? <Badge tone="wait">{fleet.waiting} waiting</Badge> : null}
          {fleet.failing_count > 0 && <Badge tone="bad">{fleet.failing_count} failing</Badge>}
          <Badge tone={fleet.usable === 0 ? "bad" : fleet.usable < fleet.backend_count ? "wait" : "good"}>
            {fleet.usable} of {fleet.backend_count} usable
          </Badge>
        </span>
      }
    >
      <Table
        label={`Backends of ${fleet.capability}`}
        columns={columns}
        rows={fleet.backends}
        keyOf={(b) => b.name}
        empty="No backends. Calls are refused until one is configured, resolved or registered."
      />
      {fleet.backends.length < fleet.backend_count && (
        <p class="small">
          <a href={"#/fleets/" + encodeURIComponent(fleet.capability)}>
            {(fleet.backend_count - fleet.backends.length).toLocaleString("en")} more
            <span class="hidden"> backends of {inWords(fleet.capability, 60)}</span>
          </a>
        </p>
      )}
      {asked && asked.what === "withdraw" && (
        <WithdrawDialog capability={fleet.capability} addr={asked.backend.addr} onClose={close} onDone={onChange} />
      )}
      {asked && asked.what !== "withdraw" && (
        <DrainDialog
          fleet={fleet}
          backend={asked.backend}
          drain={asked.what === "drain"}
          onClose={close}
          onDone={onChange}
        />
      )}
    </Card>
  );
}

function Where({ fleet, backend: b }: { fleet: string; backend: Backend }) {
  return (
    <>
      <a class="plain" href={`#/fleets/${encodeURIComponent(fleet)}/${encodeURIComponent(b.addr)}`}>
        <Untrusted text={b.addr} mono most={120} />
      </a>
      <div class="dim small facts-line">
        {b.source && <span>{b.source === "dns" ? "DNS" : b.source}</span>}
        {b.zone && (
          <span>
            zone <Untrusted text={b.zone} most={60} />
          </span>
        )}
        {b.weight !== 100 && b.weight !== 1 && <span>weight {b.weight}</span>}
        {b.dialect && (
          <span>
            dialect <Untrusted text={b.dialect} most={40} />
          </span>
        )}
        {b.session && (
          <span>
            session <Untrusted text={b.session} mono most={40} />
            {b.tenant && (
              <>
                {" "}
                of <Untrusted text={b.tenant} mono most={40} />
              </>
            )}
          </span>
        )}
      </div>
    </>
  );
}

function State({ backend: b }: { backend: Backend }) {
  return (
    <>
      <Badge tone={own(tones, b.state) ?? "plain"}>{b.state}</Badge>
      {b.why && b.state !== "up" && (
        <div class="dim small">
          <Untrusted text={b.why} most={160} />
        </div>
      )}
    </>
  );
}

function Actions({
  backend: b,
  why,
  ask,
}: {
  backend: Backend;
  why: string | undefined;
  ask(what: "drain" | "undrain" | "withdraw"): void;
}) {
  const drained = b.state === "draining";
  return (
    <span class="row actions">
      <button
        type="button"
        class="button small"
        disabled={Boolean(why)}
        title={why}
        aria-label={`${drained ? "Undrain" : "Drain"} ${b.addr}`}
        onClick={() => ask(drained ? "undrain" : "drain")}
      >
        {drained ? "Undrain" : "Drain"}
      </button>
      {b.source === "registration" && (
        <button
          type="button"
          class="button small"
          disabled={Boolean(why)}
          title={why}
          aria-label={`Withdraw the registration of ${b.addr}`}
          onClick={() => ask("withdraw")}
        >
          Withdraw
        </button>
      )}
    </span>
  );
}
