// What the candidates would change, for the calls of late.
import { useEffect } from "preact/hooks";
import type { Compared, RuleChange } from "../../api/types";
import { Trouble, Verdict } from "../../parts/ask";
import { useGet } from "../../parts/load";
import { Card, type Column, Loading, Table } from "../../parts/parts";
import { useSession } from "../../parts/session";
import { inWords } from "../../parts/Untrusted";
import { RuleTool, Subject } from "./Rule";

const columns: Column<RuleChange>[] = [
  { title: "Calls of", kind: "wide", cell: (c) => <RuleTool rule={c} /> },
  { title: "By", cell: (c) => <Subject rule={c} /> },
  {
    title: "Now",
    cell: (c) => (
      <>
        <Verdict of={c.policy} />
        <div class="dim small">{inWords(c.level ?? "", 40)}</div>
      </>
    ),
  },
  {
    title: "Then",
    cell: (c) => (
      <>
        <Verdict of={c.candidate_policy} />
        <div class="dim small">{inWords(c.candidate_level ?? "", 40)}</div>
      </>
    ),
  },
  { title: "Calls", kind: "num", cell: (c) => (c.calls ?? 0).toLocaleString("en") },
];

/** It is compared again when turn changes. */
export function Compare({ turn }: { turn: unknown }) {
  const { tenant } = useSession();
  const { value, error, reload } = useGet<Compared>("/v1/policies:compare", { tenant });
  useEffect(reload, [turn]);
  return (
    <Card title="What putting the candidates in effect would change">
      <Trouble problem={error} retry={reload} what="comparisons" />
      {!value && !error && <Loading />}
      {value && (
        <>
          <p class="dim">
            Each candidate takes the place of the rule for the same calls. All other rules stay.{" "}
            {(value.compared ?? 0).toLocaleString("en")} decisions of recent callers and tools are compared
            {value.truncated && ". There are more than one comparison shows: choose a tenant"}.
          </p>
          <Table
            label="What would change"
            columns={columns}
            rows={value.changes ?? []}
            keyOf={(c) => [c.tenant, c.user, c.agent, c.capability, c.tool].join("\n")}
            empty={value.candidates ? "The candidates would change nothing." : "No candidate applies to recent calls."}
          />
        </>
      )}
    </Card>
  );
}
