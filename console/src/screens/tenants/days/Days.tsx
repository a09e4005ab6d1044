// The use of a tenant's limits on the last days, beside the limits, and what is nearly used up.
import { now } from "../../../api/client";
import type { DailyUsage, DailyUse } from "../../../api/types";
import { Choice, Trouble } from "../../../parts/ask";
import { Export } from "../../../parts/Export";
import { useGet } from "../../../parts/load";
import { Card, Empty, Loading, own } from "../../../parts/parts";
import { useFilters } from "../../../parts/route";
import { inWords, Untrusted } from "../../../parts/Untrusted";
import { datesOf, near, type Series, seriesOf, shareOf } from "./series";
import "./days.css";

const names: Record<string, string> = {
  calls_per_second: "Calls in the busiest second",
  concurrent: "Most calls at once",
  per_day: "Calls a day",
  per_month: "Calls of the month, up to that day",
};

const nameOf = (limit: string) => own(names, limit) ?? inWords(limit, 40);

/** Near is the notice at the top of a tenant's page. */
export function Near({ of }: { of: DailyUsage | undefined }) {
  const all = of?.near ?? [];
  if (all.length === 0) return null;
  return (
    <section class="note wait" aria-label="Near a limit">
      {all.map((u, i) => (
        <p key={i}>
          <b>{Math.floor(100 * shareOf(u))}%</b> of{" "}
          {u.limit === "per_month" ? "the calls of this month" : "today's calls"} are used:{" "}
          {u.used.toLocaleString("en")} of {u.max.toLocaleString("en")}
          <Whose per={u.per ?? ""} of={[u.capability, u.tool].filter(Boolean).join(" / ")} />.
        </p>
      ))}
    </section>
  );
}

export const useDays = (tenant: string) =>
  useGet<DailyUsage>(`/v1/limits/${encodeURIComponent(tenant)}/days`, {}, 30_000);

const Whose = ({ per, of }: { per: string; of: string }) => (
  <>
    {per && <span class="dim"> by one {inWords(per, 30)}</span>}
    {of && (
      <span class="dim small">
        {" "}
        of <Untrusted text={of} mono most={100} />
      </span>
    )}
  </>
);

export function Days({ tenant, usage }: { tenant: string; usage: ReturnType<typeof useDays> }) {
  const [filters, set] = useFilters(["days"]);
  const count = filters.days === "30" ? 30 : 7;
  const dates = datesOf(count, now());
  const all = seriesOf(usage.value?.days ?? [], dates);
  return (
    <Card
      title="Use of limits by day"
      tools={
        <span class="row actions">
          <Choice
            label="Days"
            value={String(count)}
            onInput={(v) => set("days", v === "7" ? "" : v)}
            of={[
              ["7", "7 days"],
              ["30", "30 days"],
            ]}
          />
          <Export
            of={{ path: `/v1/limits/${encodeURIComponent(tenant)}/days`, field: "days", params: { days: count } }}
            name="use-of-limits"
          />
        </span>
      }
    >
      <Trouble problem={usage.error} retry={usage.reload} what="limits" />
      {!usage.value && !usage.error && <Loading />}
      {usage.value && all.length === 0 && <Empty>No limit was used on these days (UTC).</Empty>}
      {all.map((s, i) => (
        <Bars key={i} of={s} dates={dates} />
      ))}
    </Card>
  );
}

/** Bars are the days of one limit. The table has the same numbers as text. */
function Bars({ of: s, dates }: { of: Series; dates: string[] }) {
  const most = s.days.reduce<DailyUse | undefined>((m, u) => (shareOf(u) > shareOf(m) ? u : m), undefined);
  const tone = (u: DailyUse | undefined) => (shareOf(u) >= 1 ? "full" : shareOf(u) >= near ? "high" : "");
  return (
    <div class="days">
      <div class="row between">
        <span>
          {nameOf(s.limit)}
          <Whose per={s.per} of={s.of} />
        </span>
        <span class="num">
          {most && (
            <>
              at most <b>{Math.round(100 * shareOf(most))}%</b> <span class="dim">on {most.date}</span>
            </>
          )}{" "}
          <span class="dim">of {s.max.toLocaleString("en")}</span>
        </span>
      </div>
      <svg viewBox={`0 0 ${dates.length * 10} 44`} preserveAspectRatio="none" aria-hidden="true">
        <line x1="0" x2={dates.length * 10} y1="4" y2="4" />
        {s.days.map((u, i) => {
          const height = Math.min(1, shareOf(u)) * 40;
          return u && <rect key={i} class={tone(u)} x={i * 10 + 1} width="8" y={44 - height} height={height} />;
        })}
      </svg>
      <details>
        <summary>Numbers</summary>
        <ul class="plain small">
          {s.days.map(
            (u, i) =>
              u && (
                <li key={i}>
                  {u.date}: {u.used.toLocaleString("en")} of {u.max.toLocaleString("en")} (
                  {Math.round(100 * shareOf(u))}%)
                </li>
              ),
          )}
        </ul>
      </details>
    </div>
  );
}
