// Which calls are allowed, need approval, or are blocked: rules, candidates, and why.
import { useState } from "preact/hooks";
import { raw } from "../../api/client";
import type { Rule } from "../../api/types";
import { Ask, Choice, Tabs, Trouble, useSlow, Verdict } from "../../parts/ask";
import { Export } from "../../parts/Export";
import { useList } from "../../parts/list";
import { Card, type Column, Loading, More, Screen, Search, Table } from "../../parts/parts";
import { allTenants, can, type May, Needs, useJudge } from "../../parts/roles";
import { useFilters } from "../../parts/route";
import { useSession } from "../../parts/session";
import { timeOf } from "../../parts/sorted";
import { Ago } from "../../parts/Time";
import { inWords, Untrusted } from "../../parts/Untrusted";
import { explainAddress, namesOf } from "./address";
import { Compare } from "./Compare";
import { Explain } from "./Explain";
import { Matrix } from "./matrix/Matrix";
import { RuleTool, Subject } from "./Rule";
import { SetRule } from "./SetRule";

export function Policies({ rest }: { rest: string[] }) {
  const part = ["candidates", "explain", "matrix"].find((p) => p === rest[0]) ?? "";
  const here = "#/policies" + (part && "/" + part);
  return (
    <Screen title="Policies" about="Which calls are allowed, need approval, or are blocked">
      <Tabs
        label="Policies"
        here={here}
        of={[
          ["#/policies", "Rules"],
          ["#/policies/matrix", "Matrix"],
          ["#/policies/explain", "Explain"],
          ["#/policies/candidates", "Candidates"],
        ]}
      />
      {part === "explain" ? (
        <Explain key={rest[1] ?? ""} of={namesOf(rest[1] ?? "")} start={Boolean(rest[1])} />
      ) : part === "matrix" ? (
        <Matrix />
      ) : (
        <Rules key={part} candidate={part === "candidates"} />
      )}
    </Screen>
  );
}

interface Asked {
  what: "set" | "delete";
  rule?: Rule;
}

function Rules({ candidate }: { candidate: boolean }) {
  const { me, tenant } = useSession();
  const [filters, set] = useFilters(["rules", "query"]);
  const of = filters.rules || "tenants",
    search = filters.query;
  const [asked, ask] = useState<Asked>();
  const global = of === "global";
  const judge = useJudge("admin"),
    here = global ? allTenants : tenant === "-" ? undefined : tenant;
  const { may, why } = judge(here);
  const {
    items,
    page,
    error,
    loading,
    more,
    reload,
    of: request,
  } = useList<Rule>("/v1/policies", "policies", {
    ...(global ? { global: true } : { tenant }),
    candidate: candidate || undefined,
    query: useSlow(search.trim()),
    page_size: 100,
  });
  return (
    <div class="stack">
      <Needs role="admin" tenant={here} />
      {candidate && <Compare turn={items} />}
      <div class="filters bar">
        <Choice
          label="Rules"
          value={of}
          onInput={(v) => set("rules", v === "tenants" ? "" : v)}
          of={[
            ["tenants", tenant === "-" ? "of tenants" : "of the tenant"],
            ...(can(me, "viewer", allTenants) ? [["global", "for all tenants"] as [string, string]] : []),
          ]}
        />
        <Search label="Search in these rules" value={search} onInput={(v) => set("query", v)} />
        <Export of={request} name={candidate ? "candidates" : "rules"} />
        <button type="button" class="button primary" disabled={!may} title={why} onClick={() => ask({ what: "set" })}>
          {candidate ? "Set a candidate" : "Set a rule"}
        </button>
      </div>
      <Trouble problem={error} retry={reload} what="rules" />
      {loading && items.length === 0 && !error && <Loading />}
      {page && (
        <Card>
          <Table
            label={candidate ? "Candidates" : "Rules"}
            more={more}
            rows={items}
            keyOf={keyOf}
            columns={columns(candidate, judge, ask)}
            empty={
              search
                ? "No rules match."
                : candidate
                  ? "There are no candidates. A candidate decides nothing; it shows what it would change."
                  : "There are no rules here. Tools' recommendations and the defaults decide."
            }
          />
        </Card>
      )}
      <More more={more} shown={items.length} />
      {asked?.what === "set" && (
        <SetRule
          rule={asked.rule}
          candidate={candidate && !asked.rule}
          global={global}
          onClose={() => ask(undefined)}
          onDone={reload}
        />
      )}
      {asked?.what === "delete" && (
        <DeleteRule rule={asked.rule!} candidate={candidate} onClose={() => ask(undefined)} onDone={reload} />
      )}
    </div>
  );
}

const keyOf = (r: Rule) => r.name ?? [r.tenant, r.user, r.agent, r.capability, r.tool].join("\n");

function columns(candidate: boolean, judge: (tenant?: string) => May, ask: (a: Asked) => void): Column<Rule>[] {
  const no = (r: Rule) => {
    const { may, why } = judge(r.global ? allTenants : r.tenant);
    return { disabled: !may, title: why };
  };
  const call = (r: Rule) => `${inWords(r.capability, 60)} ${inWords(r.tool, 60)}`;
  return [
    { title: "Calls of", kind: "wide", by: (r) => `${r.capability} ${r.tool}`, cell: (r) => <RuleTool rule={r} /> },
    {
      title: "By",
      by: (r) => [r.tenant, r.user, r.agent].filter(Boolean).join(" "),
      cell: (r) => <Subject rule={r} />,
    },
    { title: "Policy", by: (r) => r.policy, cell: (r) => <Verdict of={r.policy} /> },
    {
      title: "Set",
      by: (r) => timeOf(r.update_time),
      cell: (r) => (
        <>
          <Ago time={r.update_time} />
          {r.set_by && (
            <div class="dim small">
              by <Untrusted text={r.set_by} most={80} />
            </div>
          )}
        </>
      ),
    },
    {
      title: "Actions",
      kind: "num",
      cell: (r) => (
        <span class="row actions">
          {!r.global && (
            <a
              class="button small"
              href={explainAddress({
                ...r,
                capability: r.capability === "*" ? "" : r.capability,
                tool: r.tool === "*" ? "" : r.tool,
              })}
              aria-label={`Explain ${call(r)}`}
            >
              Explain
            </a>
          )}
          <button
            type="button"
            class="button small"
            {...no(r)}
            aria-label={`${candidate ? "Put in effect" : "Change"} ${call(r)}`}
            onClick={() => ask({ what: "set", rule: r })}
          >
            {candidate ? "Put in effect" : "Change"}
          </button>
          <button
            type="button"
            class="button small"
            {...no(r)}
            aria-label={`Delete ${call(r)}`}
            onClick={() => ask({ what: "delete", rule: r })}
          >
            Delete
          </button>
        </span>
      ),
    },
  ];
}

function DeleteRule({
  rule: r,
  candidate,
  onClose,
  onDone,
}: {
  rule: Rule;
  candidate: boolean;
  onClose(): void;
  onDone(): void;
}) {
  const { say } = useSession();
  const run = async () => {
    const subject = r.global ? { global: true } : { tenant: r.tenant, user: r.user, agent: r.agent };
    await raw(
      "/v1/policies",
      { method: "DELETE" },
      { ...subject, capability: r.capability, tool: r.tool, candidate: candidate || undefined },
    );
    say(candidate ? "The candidate is deleted." : "The rule is deleted.");
    onDone();
  };
  return (
    <Ask
      title={candidate ? "Delete this candidate?" : "Delete this rule?"}
      verb="Delete"
      danger
      run={run}
      onClose={onClose}
    >
      <p>
        <Verdict of={r.policy} /> <RuleTool rule={r} />
      </p>
      <Subject rule={r} />
      {!candidate && <p class="dim">From then on, the next level decides, at all replicas.</p>}
    </Ask>
  );
}
