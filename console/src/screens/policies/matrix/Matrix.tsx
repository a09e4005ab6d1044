// The decisions on the tools of a capability, for any caller and for those that rules name.
import { useEffect, useMemo } from "preact/hooks";
import type { CatalogEntry, Decision, DecisionsPage } from "../../../api/types";
import { Choice, Trouble, useOneTenant, useSlow, Verdict } from "../../../parts/ask";
import { ChooseTenant } from "../../../parts/ChooseTenant";
import { Export } from "../../../parts/Export";
import { useList } from "../../../parts/list";
import { Card, type Column, Empty, Loading, More, Search, Table } from "../../../parts/parts";
import { setParam, useFilters } from "../../../parts/route";
import { inWords, Untrusted } from "../../../parts/Untrusted";
import { explainAddress } from "../address";
import { type Caller, callerOf, matrixOf, type Row } from "./rows";
import "./matrix.css";

/** The most capabilities that are offered. */
const offered = 1000;

export function Matrix() {
  const [filters, set] = useFilters(["capability", "query", "caller"]);
  const capabilities = useList<CatalogEntry>("/v1/capabilities", "capabilities", { page_size: offered });
  const ids = capabilities.items.map((c) => c.capability);
  const capability = filters.capability || ids[0] || "";
  // A link to the page shows the same decisions when other capabilities come.
  useEffect(() => {
    if (capability && !filters.capability && location.hash.startsWith("#/policies/matrix"))
      setParam("capability", capability, false);
  }, [capability, filters.capability]);
  const known = ids.includes(capability) || !capability ? ids : [capability, ...ids];
  return (
    <div class="stack">
      <Trouble problem={capabilities.error} retry={capabilities.reload} what="capabilities" />
      <div class="filters bar">
        <Choice
          label="Capability"
          value={capability}
          onInput={(v) => set("capability", v)}
          of={known.map((id) => [id, inWords(id, 63)] as [string, string])}
        />
        <Search label="Search tools" value={filters.query} onInput={(v) => set("query", v)} />
        <Search label="Search callers" value={filters.caller} onInput={(v) => set("caller", v)} />
      </div>
      {capabilities.more && (
        <p class="note">
          The first {offered.toLocaleString("en")} capabilities are offered. Others can be named in the address of the
          page, as capability.
        </p>
      )}
      {capability ? (
        <Decisions capability={capability} query={filters.query} caller={filters.caller} />
      ) : (
        capabilities.page && <Empty>There are no capabilities whose tools rules decide on.</Empty>
      )}
    </div>
  );
}

function Decisions({ capability, query, caller }: { capability: string; query: string; caller: string }) {
  const tenant = useOneTenant();
  const { items, page, error, loading, more, reload, of } = useList<Decision, DecisionsPage>(
    "/v1/policies:matrix",
    "decisions",
    { tenant, capability, query: useSlow(query.trim()), caller: useSlow(caller.trim()), page_size: 50 },
  );
  const { callers, rows } = useMemo(() => matrixOf(items), [items]);
  if (error?.reason === "TENANT_REQUIRED") return <ChooseTenant />;
  const columns: Column<Row>[] = [
    {
      title: "Tool",
      cell: (r) => (
        <>
          <Untrusted text={r.tool} mono most={128} />
          {r.unlisted && <div class="dim small">not in the catalog</div>}
        </>
      ),
    },
    ...callers.map((c, at) => ({
      title: inWords(callerOf(c), 80),
      cell: (r: Row) => <Cell of={r.cells[at]} by={c} names={{ tenant, capability, tool: r.tool }} />,
    })),
  ];
  return (
    <>
      <Trouble problem={error} retry={reload} what="decisions" />
      {loading && items.length === 0 && !error && <Loading />}
      {page && (
        <Card
          title={`${(page.tools ?? 0).toLocaleString("en")} ${page.tools === 1 ? "tool" : "tools"}, ${callers.length || 1} ${callers.length > 1 ? "callers" : "caller"}`}
          tools={<Export of={of} name="decisions" />}
        >
          {page.callers_omitted && (
            <p class="note">Not all callers that rules name are shown. Search callers to see the others.</p>
          )}
          <section class="matrix" aria-label="Decisions">
            <Table
              label="Decisions by tool and caller"
              columns={columns}
              rows={rows}
              keyOf={(r) => r.tool}
              empty={query ? "No tools match." : "The tools of this capability are not known yet."}
            />
          </section>
        </Card>
      )}
      <More more={more} shown={rows.length} />
    </>
  );
}

interface Names {
  tenant: string;
  capability: string;
  tool: string;
}

/** Cell is a decision. It leads to the explanation of exactly that call. */
function Cell({ of: d, by, names }: { of: Decision | undefined; by: Caller; names: Names }) {
  if (!d) return <span class="dim">–</span>;
  return (
    <a
      class="plain cell"
      href={explainAddress({ ...names, ...by })}
      title={`Decided by ${inWords(d.level ?? "", 30)}`}
      aria-label={`${inWords(d.policy, 30)}: explain ${inWords(names.tool, 60)} for ${inWords(callerOf(by), 80)}`}
    >
      <Verdict of={d.policy} />
    </a>
  );
}
