// Capabilities and their tools: what they are, whether they changed, and what the policy says of each.
import { useEffect, useMemo, useState } from "preact/hooks";
import { post } from "../../api/client";
import type { CatalogEntry, ListedTool, PlaygroundTool } from "../../api/types";
import { Ask, Check, Choice, Trouble, useOneTenant, useSlow, Verdict } from "../../parts/ask";
import { Export } from "../../parts/Export";
import { useList } from "../../parts/list";
import { Badge, Card, type Column, Empty, Loading, More, own, Screen, Search, Table } from "../../parts/parts";
import { allTenants, can, useMay } from "../../parts/roles";
import { useFilters } from "../../parts/route";
import { useSession } from "../../parts/session";
import { Ago } from "../../parts/Time";
import { inWords, Untrusted } from "../../parts/Untrusted";
import { VirtualList } from "../../parts/VirtualList";
import { Playground } from "./Playground";

export function Tools({ rest }: { rest: string[] }) {
  if (rest.length > 1) return <Playground key={rest.join("/")} capability={rest[0]!} tool={rest.slice(1).join("/")} />;
  return <Catalog only={rest[0] ?? ""} />;
}

const policies: [string, string][] = [
  ["", "any"],
  ["allow", "allow"],
  ["ask", "ask"],
  ["block", "block"],
];

interface Row {
  capability: string;
  tool: string;
  description: string;
  drifted: boolean;
  toolsets: number;
  policy?: string | undefined;
  level?: string | undefined;
}
interface Group {
  capability: string;
  entry?: CatalogEntry;
  rows: Row[];
}

/**
 * grouped are the capabilities with their tools, both in the order of their names. If there are more tools, a capability
 * behind the last tool may have tools that were not read yet, and is left out.
 */
function grouped(entries: CatalogEntry[], tools: Row[], more: boolean): Group[] {
  const groups = new Map<string, Group>();
  for (const entry of entries) groups.set(entry.capability, { capability: entry.capability, entry, rows: [] });
  for (const t of tools) {
    const g = groups.get(t.capability) ?? { capability: t.capability, rows: [] };
    groups.set(t.capability, g);
    if (t.tool) g.rows.push(t); // without one, the tools of the capability are not known
  }
  const last = more ? (tools.at(-1)?.capability ?? "") : undefined;
  return [...groups.values()]
    .filter((g) => last === undefined || g.capability <= last)
    .sort((a, b) => (a.capability < b.capability ? -1 : 1));
}

const rowOf = (t: PlaygroundTool | ListedTool): Row => ({
  capability: t.capability,
  tool: t.tool ?? "",
  description: t.description ?? "",
  drifted: Boolean(t.drifted),
  toolsets: "toolset_count" in t ? (t.toolset_count ?? 0) : 0,
  policy: "policy" in t ? t.policy : undefined,
  level: "level" in t ? t.level : undefined,
});

/** The gateway has tenants, as a list without one has shown. */
let severalTenants = false;

interface ToolsPage {
  next_page_token?: string;
  total_size?: number;
}

function Catalog({ only }: { only: string }) {
  const { me } = useSession();
  const tenant = useOneTenant();
  const [{ query, drifted, policy }, set] = useFilters(["query", "drifted", "policy"]);
  const wanted = useSlow(query.trim());
  const narrow = !can(me, "viewer", allTenants); // the catalog is for operators of all tenants
  const catalog = useList<CatalogEntry>("/v1/capabilities", "capabilities", { query: wanted, page_size: 1000 });
  // In a gateway with tenants, the tools that one sees have a policy. Without a tenant there are those of the catalog.
  const [several, setSeveral] = useState(severalTenants);
  const ofTenant = Boolean(tenant) || narrow || !several;
  const byPolicy = ofTenant && policy;
  const tools = useList<PlaygroundTool | ListedTool, ToolsPage>(
    ofTenant ? "/v1/playground/tools" : "/v1/tools",
    "tools",
    {
      ...(ofTenant ? { tenant, brief: true, policy } : {}),
      drifted: drifted || undefined,
      query: wanted,
      capability: only,
      page_size: 200,
    },
  );
  const rows = useMemo(() => tools.items.map(rowOf), [tools.items]);
  const groups = useMemo(
    () =>
      grouped(narrow ? [] : catalog.items, rows, Boolean(tools.more)).filter(
        (g) => (!only || g.capability === only) && (!(drifted || byPolicy) || g.rows.length > 0),
      ),
    [catalog.items, rows, tools.more === undefined, only, narrow, drifted, byPolicy],
  );
  const unchosen = !tenant && tools.error?.reason === "TENANT_REQUIRED";
  useEffect(() => {
    if (!unchosen || narrow) return;
    severalTenants = true;
    setSeveral(true);
  }, [unchosen, narrow]);
  const reload = () => {
    catalog.reload();
    tools.reload();
  };
  const loading = tools.loading || (!narrow && catalog.loading);
  const filtered = Boolean(query || only || drifted || byPolicy);
  return (
    <Screen
      title="Tools"
      about={
        <>
          {tools.page && `${(tools.page.total_size ?? 0).toLocaleString("en")} `}
          {tools.page?.total_size === 1 ? "tool" : "tools"}
          {tenant && (
            <>
              , with the policy for the tenant <Untrusted text={tenant} mono most={60} />
            </>
          )}
        </>
      }
      tools={
        only ? (
          <a class="button" href="#/tools">
            All capabilities
          </a>
        ) : (
          <>
            <Search label="Search tools" value={query} onInput={(v) => set("query", v)} />
            <Export of={tools.of} name="tools" />
          </>
        )
      }
    >
      <div class="stack">
        {!only && (
          <div class="filters bar">
            {ofTenant && <Choice label="Policy" value={policy} of={policies} onInput={(v) => set("policy", v)} />}
            <Check
              label="Only changed tools"
              checked={Boolean(drifted)}
              onInput={(on) => set("drifted", on ? "true" : "")}
            />
          </div>
        )}
        {!narrow && <Trouble problem={catalog.error} retry={reload} what="its catalog" />}
        {!unchosen && !(tools.error && catalog.error) && (
          <Trouble problem={tools.error} retry={reload} what="its tools" />
        )}
        {(unchosen || !ofTenant) && <p class="note">Choose a tenant at the top to see the policy of each tool.</p>}
        {loading && groups.length === 0 && <Loading />}
        <VirtualList
          label="Capabilities"
          items={groups}
          keyOf={(g) => g.capability}
          estimate={300}
          whole={5}
          row={(g) => <Capability of={g} tenant={tenant} onChange={reload} />}
        />
        {!loading && !tools.error && !catalog.error && groups.length === 0 && (
          <Empty>
            <b>{filtered ? "No tools match" : "There are no tools"}</b>
            {filtered ? "All tools were searched." : "Capabilities come from fleets and manifests."}
          </Empty>
        )}
        <More
          more={tools.more ?? (narrow ? undefined : catalog.more)}
          shown={tools.items.length}
          total={tools.page?.total_size}
        />
      </div>
    </Screen>
  );
}

const address = (r: { capability: string; tool: string }) =>
  `#/tools/${encodeURIComponent(r.capability)}/${encodeURIComponent(r.tool)}`;

const columns: Column<Row>[] = [
  {
    title: "Tool",
    by: (r) => r.tool,
    cell: (r) => (
      <>
        <a href={address(r)}>
          <Untrusted text={r.tool} mono most={100} />
        </a>
        {r.drifted && (
          <div>
            <Badge tone="wait">changed</Badge>
          </div>
        )}
        {r.toolsets > 0 && (
          <div>
            <Badge tone="wait">{`changed for ${r.toolsets === 1 ? "a toolset" : `${r.toolsets} toolsets`}`}</Badge>
          </div>
        )}
      </>
    ),
  },
  { title: "About", kind: "wide", cell: (r) => <Untrusted text={r.description} most={200} /> },
  {
    title: "Policy",
    by: (r) => r.policy,
    cell: (r) => (
      <>
        <Verdict of={r.policy} />
        {r.level && <div class="dim small">{inWords(r.level, 40)}</div>}
      </>
    ),
  },
  {
    title: "Actions",
    kind: "num",
    cell: (r) => (
      <a
        class="button small"
        href={address(r)}
        aria-label={`${r.drifted ? "See what changed in" : "Try"} ${inWords(r.tool, 80)}`}
      >
        {r.drifted ? "See what changed" : "Try"}
      </a>
    ),
  },
];

const sources: Record<string, string> = { unknown: "no manifest" };

function Capability({ of: g, tenant, onChange }: { of: Group; tenant: string; onChange(): void }) {
  const { say } = useSession();
  const { may, why } = useMay("operator", allTenants);
  const [asked, ask] = useState(false);
  const e = g.entry;
  const dynamic = e?.source === "discovered";
  const discover = async () => {
    await post(`/v1/capabilities/${encodeURIComponent(g.capability)}:discover`);
    say("A discovery has begun.");
    onChange();
  };
  return (
    <Card
      title={
        <a class="plain" href={"#/tools/" + encodeURIComponent(g.capability)}>
          <Untrusted text={g.capability} most={100} />
        </a>
      }
      tools={
        e && (
          <span class="row">
            {e.source && <Badge>{own(sources, e.source) ?? inWords(e.source, 30)}</Badge>}
            {e.drifted_count ? <Badge tone="wait">{e.drifted_count} changed</Badge> : null}
            {e.drift_guard === false && <Badge title="Changed tools do not count as drifted">no drift guard</Badge>}
            {dynamic && (
              <button
                type="button"
                class="button small"
                disabled={!may}
                title={why}
                aria-label={`Discover ${inWords(g.capability, 60)}`}
                onClick={() => ask(true)}
              >
                Discover
              </button>
            )}
          </span>
        )
      }
    >
      {e?.last_error && (
        <p class="note wait">
          The last discovery failed <Ago time={e.last_failure} />: <Untrusted text={e.last_error} most={500} />
        </p>
      )}
      {e?.left_out && (
        <p class="note wait">
          The last discovery left out: <Untrusted text={e.left_out} most={800} />
        </p>
      )}
      {e?.pending && (
        <p class="note">
          The manifest is not in effect yet: <Untrusted text={e.pending} most={200} />
        </p>
      )}
      <Table
        label={`Tools of ${inWords(g.capability, 100)}`}
        columns={columns}
        rows={g.rows}
        keyOf={(r) => r.tool}
        empty={
          e?.tool_count
            ? tenant
              ? `The tenant sees none of its ${e.tool_count} tools that match.`
              : `It has ${e.tool_count} ${e.tool_count === 1 ? "tool" : "tools"}. None of them matches.`
            : dynamic
              ? "Its tools are not known yet. Run a discovery to list them."
              : "Its tools are unknown. A manifest lists them, or sets tool_source: dynamic for a discovery."
        }
      />
      {asked && (
        <Ask title="Discover the tools again?" verb="Discover" run={discover} onClose={() => ask(false)}>
          <p>
            <Untrusted text={g.capability} mono />
          </p>
          <p class="dim">Lists the tools of a backend now, instead of at the next interval.</p>
        </Ask>
      )}
    </Card>
  );
}
