// Capabilities and their tools: what they are, whether they changed, and what the policy says of each.
import { useEffect, useState } from "preact/hooks";
import { get, post } from "../../api/client";
import type { CatalogEntry, PlaygroundTool } from "../../api/types";
import { Ask, Trouble, useOneTenant, Verdict } from "../../parts/ask";
import { useList } from "../../parts/list";
import { Badge, Card, type Column, Empty, Loading, More, own, Screen, Search, Table } from "../../parts/parts";
import { allTenants, can, useMay } from "../../parts/roles";
import { useSession } from "../../parts/session";
import { Ago } from "../../parts/Time";
import { inWords, Untrusted } from "../../parts/Untrusted";
import { Playground } from "./Playground";

export function Tools({ rest }: { rest: string[] }) {
  if (rest.length > 1) return <Playground key={rest.join("/")} capability={rest[0]!} tool={rest.slice(1).join("/")} />;
  return <Catalog only={rest[0] ?? ""} />;
}

interface Row {
  capability: string;
  tool: string;
  description: string;
  drifted: boolean;
  policy?: string | undefined;
  level?: string | undefined;
}
interface Group {
  capability: string;
  entry?: CatalogEntry;
  rows: Row[];
}

/** grouped are the tools of the catalog, and those that the tenant sees. */
function grouped(entries: CatalogEntry[], seen: PlaygroundTool[]): Group[] {
  const groups = new Map<string, Group>();
  for (const e of entries) {
    groups.set(e.capability, {
      capability: e.capability,
      entry: e,
      rows: (e.tools ?? []).map((t) => ({
        capability: e.capability,
        tool: t.name ?? "",
        description: t.description ?? "",
        drifted: Boolean(t.drifted),
      })),
    });
  }
  for (const t of seen) {
    const g = groups.get(t.capability) ?? { capability: t.capability, rows: [] };
    groups.set(t.capability, g);
    const row = g.rows.find((r) => r.tool === t.tool);
    if (row) Object.assign(row, { policy: t.policy, level: t.level });
    else if (t.tool)
      g.rows.push({
        capability: t.capability,
        tool: t.tool,
        description: t.description ?? "",
        drifted: Boolean(t.drifted),
        policy: t.policy,
        level: t.level,
      });
  }
  return [...groups.values()].sort((a, b) => (a.capability < b.capability ? -1 : 1));
}

/** Tools are requested of so many capabilities; those of one tenant come in a list. */
const mostDetails = 50;

/** useDetails are the entries with their tools, which lists of the catalog leave out. */
function useDetails(entries: CatalogEntry[], wanted: boolean): CatalogEntry[] {
  const [details, setDetails] = useState<Record<string, CatalogEntry>>({});
  useEffect(() => {
    if (!wanted) return;
    const stop = new AbortController();
    for (const e of entries.filter((e) => e.tool_count && !e.tools?.length).slice(0, mostDetails)) {
      get<CatalogEntry>("/v1/capabilities/" + encodeURIComponent(e.capability), {}, stop.signal).then(
        (d) => setDetails((all) => ({ ...all, [e.capability]: d })),
        () => {},
      ); // without them, the card has their number
    }
    return () => stop.abort();
  }, [entries, wanted]);
  return entries.map((e) => ({ ...e, tools: e.tools?.length ? e.tools : (own(details, e.capability)?.tools ?? []) }));
}

function Catalog({ only }: { only: string }) {
  const { me } = useSession();
  const tenant = useOneTenant();
  const [search, setSearch] = useState("");
  const catalog = useList<CatalogEntry>("/v1/capabilities", "capabilities", { page_size: 200 });
  const seen = useList<PlaygroundTool>("/v1/playground/tools", "tools", { tenant, capability: only, page_size: 500 });
  const narrow = !can(me, "viewer", allTenants); // the catalog is for operators of all tenants
  const wanted = search.trim().toLowerCase();
  const known = useDetails(catalog.items, !narrow && !tenant);
  const groups = grouped(narrow ? [] : known, seen.items)
    .filter((g) => !only || g.capability === only)
    .map((g) => ({
      ...g,
      rows: g.rows.filter(
        (r) => !wanted || [r.capability, r.tool, r.description].some((f) => f.toLowerCase().includes(wanted)),
      ),
    }))
    .filter((g) => !wanted || g.rows.length > 0 || g.capability.toLowerCase().includes(wanted));
  const reload = () => {
    catalog.reload();
    seen.reload();
  };
  const loading = seen.loading || (!narrow && catalog.loading);
  const chosen =
    tenant || !(seen.error && ["TENANT_REQUIRED", "TENANT_UNKNOWN", "PLAYGROUND_INVALID"].includes(seen.error.reason));
  return (
    <Screen
      title="Tools"
      about={
        tenant ? (
          <>
            With the policy for the tenant <Untrusted text={tenant} mono most={60} />
          </>
        ) : (
          "Tools, whether they changed, and how to call them"
        )
      }
      tools={
        only ? (
          <a class="button" href="#/tools">
            All capabilities
          </a>
        ) : (
          <Search label="Search tools" value={search} onInput={setSearch} />
        )
      }
    >
      <div class="stack">
        {!narrow && <Trouble problem={catalog.error} retry={reload} what="its catalog" />}
        {chosen ? (
          !(seen.error && catalog.error) && <Trouble problem={seen.error} retry={reload} what="the tools of a tenant" />
        ) : (
          <p class="note">Choose a tenant at the top to see the policy of each tool.</p>
        )}
        {loading && groups.length === 0 && <Loading />}
        {groups.map((g) => (
          <Capability key={g.capability} of={g} onChange={reload} />
        ))}
        {!loading && !seen.error && !catalog.error && groups.length === 0 && (
          <Empty>
            <b>{wanted || only ? "No tool fits" : "There are no tools"}</b>Capabilities come from fleets and manifests.
          </Empty>
        )}
        <More more={catalog.more && !narrow ? catalog.more : seen.more} loading={loading} />
      </div>
    </Screen>
  );
}

const address = (r: { capability: string; tool: string }) =>
  `#/tools/${encodeURIComponent(r.capability)}/${encodeURIComponent(r.tool)}`;

const columns: Column<Row>[] = [
  {
    title: "Tool",
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
      </>
    ),
  },
  { title: "About", kind: "wide", cell: (r) => <Untrusted text={r.description} most={200} /> },
  {
    title: "Policy",
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

function Capability({ of: g, onChange }: { of: Group; onChange(): void }) {
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
            ? `It has ${e.tool_count} ${e.tool_count === 1 ? "tool" : "tools"}. Choose a tenant to see them.`
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
