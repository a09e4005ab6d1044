// One toolset: its tools, and how they have changed since it described them.
import { useState } from "preact/hooks";
import { post } from "../../api/client";
import type { Toolset, ToolsetEntry } from "../../api/types";
import { Ask, Trouble } from "../../parts/ask";
import { useGet } from "../../parts/load";
import { Badge, Card, type Column, Facts, Loading, Screen, Table } from "../../parts/parts";
import { allTenants, useJudge } from "../../parts/roles";
import { useSession } from "../../parts/session";
import { Ago } from "../../parts/Time";
import { inWords, Untrusted } from "../../parts/Untrusted";
import { Difference } from "../tools/Drift";
import { SetToolset } from "./SetToolset";

/** tenant is that of the toolset; "*": it is of all tenants; "": it is of the configuration. */
export function OneToolset({ name, tenant }: { name: string; tenant: string }) {
  const { say, tenant: here } = useSession();
  const of = tenant === "*" ? { global: true } : { tenant: tenant || (here === "-" ? undefined : here) };
  const path = "/v1/toolsets/" + encodeURIComponent(name);
  const anyOf = !tenant && here === "-" ? { global: true } : of;
  const { value: s, error, reload } = useGet<Toolset>(path, anyOf);
  const owner = s?.source === "file" || s?.global ? allTenants : s?.tenant;
  const change = useJudge("admin")(owner),
    accept = useJudge("operator")(owner);
  const [asked, ask] = useState<ToolsetEntry | "set">();
  const file = s?.source === "file";
  const run = async (e: ToolsetEntry) => {
    await post(path + "/accept", { ...anyOf, capability: e.capability, tool: e.tool, hash: e.current?.hash });
    say(`This version of ${inWords(e.tool ?? "", 60)} is accepted.`);
    reload();
  };
  const columns: Column<ToolsetEntry>[] = [
    {
      title: "Tool",
      kind: "wide",
      by: (e) => `${e.capability} ${e.tool}`,
      cell: (e) => (
        <>
          <Untrusted text={e.capability} mono most={80} /> / <Untrusted text={e.tool} mono most={120} />
          {e.description && (
            <div class="dim small">
              <Untrusted text={e.description} most={300} />
            </div>
          )}
          {e.problem && (
            <div class="small">
              <Untrusted text={e.problem} most={300} />
            </div>
          )}
        </>
      ),
    },
    { title: "Name", by: (e) => e.name ?? "", cell: (e) => <Untrusted text={e.name} mono most={80} /> },
    {
      title: "Fixed",
      by: (e) => (e.fixed ?? []).join(" "),
      cell: (e) => <Untrusted text={e.arguments || (e.fixed ?? []).join(", ")} mono most={200} />,
    },
    {
      title: "State",
      by: (e) => e.state ?? "",
      cell: (e) =>
        e.state === "changed" ? <Badge tone="wait">changed</Badge> : <Untrusted text={e.state} most={40} />,
    },
  ];
  return (
    <Screen
      title={inWords(name, 80)}
      about={file ? "A toolset of the configuration. It is changed in its file." : "A toolset"}
      tools={
        <>
          {s && !file && (
            <button type="button" class="button" disabled={!change.may} title={change.why} onClick={() => ask("set")}>
              Change
            </button>
          )}
          <a class="button" href="#/toolsets">
            All toolsets
          </a>
        </>
      }
    >
      <div class="stack">
        <Trouble problem={error} retry={reload} what="toolsets" />
        {!s && !error && <Loading />}
        {s && (
          <>
            <Facts
              of={[
                ["Address", <Untrusted key="a" text={s.path} mono most={100} />],
                [
                  "For",
                  s.tenant || s.tenants?.length ? (
                    <Untrusted key="f" text={s.tenant || s.tenants?.join(", ")} most={200} />
                  ) : (
                    "all tenants"
                  ),
                ],
                ["Groups", s.groups?.length ? <Untrusted key="g" text={s.groups.join(", ")} most={200} /> : "any"],
                ["Set", s.update_time ? <Ago key="t" time={s.update_time} /> : "in the configuration"],
              ]}
            />
            <Card>
              <Table
                label="Tools"
                columns={columns}
                rows={s.tools ?? []}
                keyOf={(e) => [e.capability, e.tool].join("\n")}
                empty="There are no tools that you may see."
              />
            </Card>
            {(s.tools ?? [])
              .filter((e) => e.current)
              .map((e) => (
                <Card
                  key={[e.capability, e.tool].join("\n")}
                  title={`${inWords(e.tool ?? "", 80)} has changed since this toolset described it`}
                  tools={
                    !file && (
                      <button
                        type="button"
                        class="button small primary"
                        disabled={!accept.may}
                        title={accept.why}
                        onClick={() => ask(e)}
                      >
                        Accept this version
                      </button>
                    )
                  }
                >
                  <p class="dim">
                    Calls at this address that would be allowed need approval until this version is accepted
                    {file && ": set its hash in the configuration"}.
                  </p>
                  <Difference was={e.described} now={e.current ?? {}} />
                </Card>
              ))}
          </>
        )}
      </div>
      {asked === "set" && s && <SetToolset of={s} onClose={() => ask(undefined)} onDone={reload} />}
      {asked && asked !== "set" && (
        <Ask title="Accept this version?" verb="Accept" run={() => run(asked)} onClose={() => ask(undefined)}>
          <p>
            <Untrusted text={asked.capability} mono most={80} /> /{" "}
            <b>
              <Untrusted text={asked.tool} mono most={120} />
            </b>
          </p>
          <p class="dim small">
            Hash <Untrusted text={asked.current?.hash} mono most={80} />
          </p>
          <p class="dim">The toolset keeps its own description. Check that it still fits.</p>
        </Ask>
      )}
    </Screen>
  );
}
