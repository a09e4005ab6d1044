// How much of their limits tenants use.
import type { LimitInUse, TenantInUse } from "../../api/types";
import { Trouble } from "../../parts/ask";
import { useList } from "../../parts/list";
import { Badge, Card, Empty, Loading, More, own } from "../../parts/parts";
import { useSession } from "../../parts/session";
import { inWords, Untrusted } from "../../parts/Untrusted";

const names: Record<string, string> = {
  calls_per_second: "Calls a second",
  concurrent: "Calls at once",
  per_day: "Calls today",
  per_month: "Calls this month",
};

/** Limits shows one tenant's limits, or those of all tenants on the screen. */
export function Limits({ tenant: one }: { tenant?: string }) {
  const { tenant } = useSession();
  const { items, page, error, loading, more, reload } = useList<TenantInUse>(
    "/v1/limits",
    "tenants",
    { tenant: one ?? tenant, page_size: 100 },
    3000,
  );
  const none = <Empty>{tenant === "-" ? "No tenant has limits." : "It has no limits."}</Empty>;
  return (
    <div class="stack">
      <Trouble problem={error} retry={reload} what="limits" />
      {loading && items.length === 0 && !error && <Loading />}
      {page && items.length === 0 && !more && none}
      {items.map((t) => (
        <Card
          key={t.tenant}
          title={
            one ? (
              "Limits in use"
            ) : (
              <a class="plain" href={"#/tenants/" + encodeURIComponent(t.tenant)}>
                <Untrusted text={t.tenant} mono most={70} />
              </a>
            )
          }
          tools={t.shadow && <Badge tone="info">shadow: nothing is refused</Badge>}
        >
          {t.limits.length === 0 ? <Empty>It has no limits.</Empty> : t.limits.map((l, i) => <Bar key={i} of={l} />)}
        </Card>
      ))}
      <More more={more} shown={items.length} />
    </div>
  );
}

function Bar({ of: l }: { of: LimitInUse }) {
  const max = l.max * Math.max(1, l.per ? (l.limit === "per_day" || l.limit === "per_month" ? 1 : (l.apart ?? 1)) : 1);
  const share = max > 0 ? Math.min(1, l.used / max) : 0;
  const title = own(names, l.limit) ?? inWords(l.limit, 40);
  const used = l.used.toLocaleString("en", { maximumFractionDigits: 1 });
  return (
    <div class={"limit" + (share >= 1 ? " full" : share >= 0.8 ? " high" : "")}>
      <div>
        <span>
          {title}
          {l.per && <span class="dim"> for each {inWords(l.per, 30)}</span>}
          {(l.capability || l.tool) && (
            <span class="dim small">
              {" "}
              of <Untrusted text={[l.capability, l.tool].filter(Boolean).join(" / ")} mono most={100} />
            </span>
          )}
        </span>
        <span class="num">
          {used}{" "}
          <span class="dim">
            of {l.max.toLocaleString("en")}
            {l.burst && l.burst !== l.max ? `, ${l.burst.toLocaleString("en")} at once` : ""}
            {l.apart ? `, ${l.apart} apart` : ""}
          </span>{" "}
          <b>{Math.round(share * 100)}%</b>
        </span>
      </div>
      <svg viewBox="0 0 100 8" preserveAspectRatio="none" aria-hidden="true">
        <rect width={share * 100} height="8" />
      </svg>
    </div>
  );
}
