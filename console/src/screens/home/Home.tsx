// The state of the gateway, and what needs attention.
import type { ComponentChildren } from "preact";
import { useContext, useState } from "preact/hooks";
import { now } from "../../api/client";
import type { Summary } from "../../api/types";
import { useGet } from "../../parts/load";
import { Badge, Card, Failure, Loading, own, Screen, Table, type Tone } from "../../parts/parts";
import { allTenants, useMay } from "../../parts/roles";
import { useSession } from "../../parts/session";
import { Ago } from "../../parts/Time";
import { inWords, Untrusted } from "../../parts/Untrusted";
import { ApprovalsContext, stateOf } from "../inbox/feed";
import { RetryAll } from "../webhooks/RetryAll";
import { Chart } from "./Chart";

const every = 5000;

export function Home(_: { rest: string[] }) {
  const { tenant } = useSession();
  const { value, error, reload } = useGet<Summary>("/v1/summary", { tenant }, every);
  return (
    <Screen title="Home">
      <div class="stack">
        <Failure problem={error} retry={reload} />
        {value ? (
          <>
            {value.partial && (
              <p class="note wait">Redis is away: all of this is of one replica, {inWords(value.replica ?? "")}.</p>
            )}
            <Tiles of={value} />
            <Attention of={value} reload={reload} />
            <Calls of={value} />
            <Replicas of={value} />
          </>
        ) : (
          !error && <Loading />
        )}
      </div>
    </Screen>
  );
}

const redisTone: Record<string, Tone> = { ok: "good", embedded: "info", away: "bad", "": "plain" };
const redisText: Record<string, string> = {
  ok: "Connected",
  embedded: "Embedded",
  away: "Unreachable",
  "": "None",
};

function Tiles({ of }: { of: Summary }) {
  const { items, waiting, count } = useContext(ApprovalsContext);
  const replicas = of.replicas ?? [],
    minutes = of.minutes ?? [];
  const ready = replicas.filter((r) => r.ready).length,
    all = replicas.length;
  const oldest = items.find((a) => stateOf(a, now()) === "pending");
  const sum = (field: "calls" | "asked" | "refusals" | "errors" | "tool_errors") =>
    minutes.reduce((n, m) => n + (m[field] ?? 0), 0);
  const calls = sum("calls"),
    asked = sum("asked"),
    refused = sum("refusals"),
    errors = sum("errors"),
    tools = sum("tool_errors");
  const share = calls ? Math.round((100 * (refused + errors + tools)) / calls) : 0;
  return (
    <div class="tiles">
      <Tile
        title="Gateway"
        tone={ready === all && all > 0 ? "good" : ready > 0 ? "wait" : "bad"}
        value={ready === all && all > 0 ? "Ready" : ready > 0 ? "Partly ready" : "Not ready"}
        about={`${ready} of ${all} ${all === 1 ? "replica" : "replicas"} ready`}
      />
      <Tile
        title="Redis"
        tone={own(redisTone, of.redis ?? "") ?? "plain"}
        value={own(redisText, of.redis ?? "") ?? inWords(of.redis ?? "", 20)}
        about={
          of.redis === "away"
            ? "calls continue with cached state"
            : of.redis === "embedded"
              ? "a single replica"
              : of.redis
                ? "shared by all replicas"
                : "not configured"
        }
      />
      <Tile
        title="Calls in 15 min"
        tone={share >= 20 ? "wait" : "plain"}
        value={calls.toLocaleString("en")}
        about={[
          `${asked.toLocaleString("en")} asked`,
          `${refused.toLocaleString("en")} refused`,
          `${errors.toLocaleString("en")} failed`,
          `${tools.toLocaleString("en")} tool ${tools === 1 ? "error" : "errors"}`,
        ].join(", ")}
        href="#/calls"
      />
      <Tile
        title="Approvals"
        tone={waiting ? "wait" : "good"}
        value={waiting ? `${count} waiting` : "None waiting"}
        href="#/inbox"
        about={
          oldest?.create_time ? (
            <>
              the oldest: <Ago time={oldest.create_time} />
            </>
          ) : (
            "all are answered"
          )
        }
      />
    </div>
  );
}

function Tile({
  title,
  value,
  about,
  tone,
  href,
}: {
  title: string;
  value: string;
  about: ComponentChildren;
  tone: Tone;
  href?: string;
}) {
  const inside = (
    <>
      <span class="tile-title">
        <span class={"dot " + tone} aria-hidden="true" />
        {title}
      </span>
      <b>{value}</b>
      <span class="dim small">{about}</span>
    </>
  );
  return href ? (
    <a class="card tile" href={href}>
      {inside}
    </a>
  ) : (
    <div class="card tile">{inside}</div>
  );
}

const kinds: Record<string, [Tone, string]> = {
  fleet: ["bad", "Fleet"],
  backends: ["wait", "Backends"],
  approvals: ["wait", "Approvals"],
  limits: ["wait", "Limits"],
  webhooks: ["wait", "Webhooks"],
  drift: ["wait", "Tools"],
  config: ["bad", "Configuration"],
  audit: ["bad", "Audit"],
  redis: ["bad", "Redis"],
};

/** A link of the summary leads within this console alone. */
const inside = (link: string | undefined) =>
  link && /^#\/[\w/.~%?=&-]*$/.test(link)
    ? link
    : link && /^\/#\/[\w/.~%?=&-]*$/.test(link)
      ? link.slice(1)
      : undefined;

/**
 * useAttention lists what needs attention. Once the feed has been read, approvals come from it, as in the tile and in
 * the navigation.
 */
function useAttention(of: Summary): NonNullable<Summary["attention"]> {
  const { items, waiting, count, loading, error } = useContext(ApprovalsContext);
  const all = of.attention ?? [];
  if (error || (loading && items.length === 0)) return all;
  const others = all.filter((a) => a.kind !== "approvals");
  if (waiting === 0) return others;
  const oldest = items.find((a) => stateOf(a, now()) === "pending");
  const at = others.findIndex((a) => ["limits", "webhooks", "drift"].includes(a.kind ?? ""));
  return others.toSpliced(at < 0 ? others.length : at, 0, {
    kind: "approvals",
    link: "#/inbox",
    count: waiting,
    text: waiting === 1 ? "one call is waiting for approval" : `${count} calls are waiting for approval`,
    ...(oldest?.create_time ? { time: oldest.create_time } : {}),
  });
}

function Attention({ of, reload }: { of: Summary; reload(): void }) {
  const attention = useAttention(of);
  const { may, why } = useMay("operator", allTenants);
  const [asked, ask] = useState(false); // whether to retry all dead letters
  return (
    <Card title="Needs attention">
      {attention.length === 0 ? (
        <p class="calm">
          <span class="dot good" aria-hidden="true" /> Nothing needs attention.
        </p>
      ) : (
        <ul class="attention">
          {attention.map((a, i) => {
            const [tone, word] = own(kinds, a.kind) ?? ["wait" as Tone, inWords(a.kind ?? "", 30)];
            const to =
              (a.kind === "fleet" || a.kind === "backends") && a.subject
                ? "#/fleets/" + encodeURIComponent(a.subject)
                : inside(a.link);
            return (
              <li key={i}>
                <Badge tone={tone}>{word}</Badge>
                <span class="grow">
                  <Untrusted text={a.text} />
                  {a.time && (
                    <span class="dim small since">
                      <Ago time={a.time} />
                    </span>
                  )}
                </span>
                {a.kind === "webhooks" && (
                  <button type="button" class="button small" disabled={!may} title={why} onClick={() => ask(true)}>
                    Retry all
                  </button>
                )}
                {to && (
                  <a href={to}>
                    View<span class="hidden"> {word}</span>
                  </a>
                )}
              </li>
            );
          })}
        </ul>
      )}
      {asked && <RetryAll onClose={() => ask(false)} onDone={reload} />}
    </Card>
  );
}

function Calls({ of }: { of: Summary }) {
  return (
    <Card title="Calls of all replicas, by minute">
      <Chart minutes={of.minutes ?? []} />
    </Card>
  );
}

function Replicas({ of }: { of: Summary }) {
  const replicas = of.replicas ?? [];
  if (replicas.length === 0) return null;
  return (
    <Card title="Replicas">
      <Table
        label="Replicas"
        rows={replicas}
        keyOf={(r) => r.id ?? ""}
        columns={[
          { title: "Replica", kind: "wide", cell: (r) => <Untrusted text={r.id} mono /> },
          {
            title: "State",
            cell: (r) => (
              <Badge tone={r.ready ? "good" : r.draining ? "wait" : "bad"}>
                {r.ready ? "ready" : r.draining ? "draining" : "not ready"}
              </Badge>
            ),
          },
          { title: "Version", cell: (r) => <Untrusted text={r.version} mono most={40} /> },
          { title: "Redis", cell: (r) => <Untrusted text={r.redis} none="none" /> },
          { title: "Running for", cell: (r) => <Ago time={r.start_time} suffix="" /> },
          { title: "In flight", kind: "num", cell: (r) => (r.in_flight ?? 0).toLocaleString("en") },
        ]}
      />
    </Card>
  );
}
