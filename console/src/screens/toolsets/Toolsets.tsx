// Toolsets: named lists of tools for callers over MCP.
import { useState } from "preact/hooks";
import { raw } from "../../api/client";
import type { Toolset } from "../../api/types";
import { Ask, Choice, Trouble, useSlow } from "../../parts/ask";
import { Export } from "../../parts/Export";
import { useList } from "../../parts/list";
import { Badge, Card, type Column, Loading, More, Screen, Search, Table } from "../../parts/parts";
import { allTenants, Needs, useJudge } from "../../parts/roles";
import { useFilters } from "../../parts/route";
import { useSession } from "../../parts/session";
import { timeOf } from "../../parts/sorted";
import { Ago } from "../../parts/Time";
import { inWords, Untrusted } from "../../parts/Untrusted";
import { OneToolset } from "./OneToolset";
import { SetToolset } from "./SetToolset";

export function Toolsets({ rest }: { rest: string[] }) {
  const [name, tenant] = rest;
  return name ? <OneToolset key={rest.join("/")} name={name} tenant={tenant ?? ""} /> : <All />;
}

/** addressOf returns the address of a toolset's page. */
export const addressOf = (s: Toolset) =>
  ["#/toolsets", s.name, ...(s.tenant ? [s.tenant] : s.global ? ["*"] : [])]
    .map((part, i) => (i ? encodeURIComponent(part ?? "") : part))
    .join("/");

const ownersOf = (s: Toolset) => s.tenant || (s.tenants ?? []).join(", ");

function All() {
  const { tenant } = useSession();
  const [{ query, changed }, set] = useFilters(["query", "changed"]);
  const { items, page, error, loading, more, reload, of } = useList<Toolset>("/v1/toolsets", "toolsets", {
    tenant,
    query: useSlow(query.trim()),
    changed: changed ? true : undefined,
    page_size: 100,
  });
  const judge = useJudge("admin"),
    here = tenant === "-" ? undefined : tenant;
  const { may, why } = judge(here);
  const [asked, ask] = useState<Toolset | "new">();
  const columns: Column<Toolset>[] = [
    {
      title: "Toolset",
      kind: "wide",
      by: (s) => s.name,
      cell: (s) => (
        <>
          <a href={addressOf(s)}>
            <Untrusted text={s.name} mono most={80} />
          </a>
          <div class="dim small">
            {s.source === "file" ? "of the configuration" : <Untrusted text={s.path} mono most={80} />}
          </div>
        </>
      ),
    },
    {
      title: "For",
      by: (s) => `${ownersOf(s)} ${(s.groups ?? []).join(" ")}`,
      cell: (s) => (
        <>
          {ownersOf(s) ? <Untrusted text={ownersOf(s)} most={120} /> : "all tenants"}
          {!!s.groups?.length && (
            <div class="dim small">
              in <Untrusted text={s.groups.join(", ")} most={120} />
            </div>
          )}
        </>
      ),
    },
    { title: "Entries", kind: "num", by: (s) => s.tools?.length ?? 0, cell: (s) => s.tools?.length ?? 0 },
    {
      title: "Tools",
      by: (s) => s.changed_count ?? 0,
      cell: (s) => (s.changed_count ? <Badge tone="wait">{s.changed_count} changed</Badge> : ""),
    },
    {
      title: "Set",
      by: (s) => timeOf(s.update_time),
      cell: (s) =>
        s.update_time ? (
          <>
            <Ago time={s.update_time} />
            {s.set_by && (
              <div class="dim small">
                by <Untrusted text={s.set_by} most={80} />
              </div>
            )}
          </>
        ) : (
          ""
        ),
    },
    {
      title: "Actions",
      kind: "num",
      cell: (s) => {
        if (s.source === "file") return "";
        const its = judge(s.global ? allTenants : s.tenant);
        return (
          <button
            type="button"
            class="button small"
            disabled={!its.may}
            title={its.why}
            aria-label={`Delete ${inWords(s.name, 80)}`}
            onClick={() => ask(s)}
          >
            Delete
          </button>
        );
      },
    },
  ];
  return (
    <Screen
      title="Toolsets"
      about="Lists of tools for callers over MCP, at addresses of their own"
      tools={
        <>
          <Search label="Search in toolsets" value={query} onInput={(v) => set("query", v)} />
          <Choice
            label="Tools"
            value={changed}
            onInput={(v) => set("changed", v)}
            of={[
              ["", "all"],
              ["1", "changed"],
            ]}
          />
          <Export of={of} name="toolsets" />
          <button type="button" class="button primary" disabled={!may} title={why} onClick={() => ask("new")}>
            Set a toolset
          </button>
        </>
      }
    >
      <div class="stack">
        <Needs role="admin" tenant={here} />
        <Trouble problem={error} retry={reload} what="toolsets" />
        {loading && items.length === 0 && !error && <Loading />}
        {page && (
          <Card>
            <Table
              label="Toolsets"
              more={more}
              columns={columns}
              rows={items}
              keyOf={(s) => [s.name, s.source, ownersOf(s)].join("\n")}
              empty={
                query || changed
                  ? "No toolset fits."
                  : "There are no toolsets. Callers over MCP get all of their tools."
              }
            />
          </Card>
        )}
        <More more={more} shown={items.length} />
      </div>
      {asked === "new" && <SetToolset onClose={() => ask(undefined)} onDone={reload} />}
      {asked && asked !== "new" && <DeleteToolset of={asked} onClose={() => ask(undefined)} onDone={reload} />}
    </Screen>
  );
}

function DeleteToolset({ of: s, onClose, onDone }: { of: Toolset; onClose(): void; onDone(): void }) {
  const { say } = useSession();
  const run = async () => {
    await raw(
      "/v1/toolsets/" + encodeURIComponent(s.name),
      { method: "DELETE" },
      {
        ...(s.global ? { global: true } : { tenant: s.tenant }),
        etag: s.etag,
      },
    );
    say(`The toolset ${inWords(s.name, 60)} is deleted.`);
    onDone();
  };
  return (
    <Ask title="Delete this toolset?" verb="Delete" danger run={run} onClose={onClose}>
      <p>
        <b>
          <Untrusted text={s.name} mono most={80} />
        </b>{" "}
        {s.global ? "for all tenants" : <Untrusted text={s.tenant} most={80} />}
      </p>
      <p class="dim">Its address ends at once, at all replicas. Callers may still use all of their tools at /mcp.</p>
    </Ask>
  );
}
