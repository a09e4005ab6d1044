// One tool: its policy for a caller, what changed, and a call as a user or an agent.
import { useEffect, useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
import type { CatalogEntry, PlaygroundTool } from "../../api/types";
import { Text, Trouble, useOneTenant, useSlow, Verdict } from "../../parts/ask";
import { ArgumentsField, wrongIn } from "../../parts/connect/ArgumentsField";
import { Snippets } from "../../parts/connect/Connect";
import { usePublicPort } from "../../parts/connect/port";
import { snippets } from "../../parts/connect/snippets";
import { History } from "../../parts/history/History";
import { useList } from "../../parts/list";
import { asProblem, useGet } from "../../parts/load";
import { Badge, Card, Empty, Loading, Screen } from "../../parts/parts";
import { allTenants, can, Needs, useMay } from "../../parts/roles";
import { useSession } from "../../parts/session";
import { inWords, Untrusted } from "../../parts/Untrusted";
import { explainAddress } from "../policies/address";
import { Drift } from "./Drift";
import { type Caller, invoke, type Told } from "./invoke";
import { Outcome, type Run } from "./Outcome";
import { Fields } from "./SchemaForm";
import { fits, type Schema, startOf } from "./schema";

export function Playground({ capability, tool }: { capability: string; tool: string }) {
  const { me } = useSession();
  const mine = useOneTenant();
  const [who, setWho] = useState<Caller>({ tenant: mine, user: "", agent: "", session: "" });
  const slow = useSlow(who);
  const { items, error, loading, reload } = useList<PlaygroundTool>("/v1/playground/tools", "tools", {
    tenant: slow.tenant.trim(),
    user: slow.user,
    agent: slow.agent,
    capability,
    page_size: 1000,
  });
  const found = items.find((t) => t.tool === tool);
  // The form stays while the policy for another caller is requested.
  const known = useRef<PlaygroundTool | undefined>(undefined);
  known.current = found ?? known.current;
  const t = known.current;
  const [args, setArgs] = useState("{}");
  useLayoutEffect(() => setWho((w) => ({ ...w, tenant: mine })), [mine]); // the choice at the top of the page
  // Whether a tool has changed does not depend on a tenant.
  const entry = useGet<CatalogEntry>(
    can(me, "viewer", allTenants) ? "/v1/capabilities/" + encodeURIComponent(capability) : undefined,
  );
  const drifted = entry.value?.tools?.find((e) => e.name === tool)?.drifted,
    changes = useRef<HTMLDivElement>(null);
  const unknown = Boolean(!t && entry.value?.known && !entry.value.tools?.some((e) => e.name === tool));
  const missing = error?.reason === "TENANT_REQUIRED";
  const put = (field: keyof Caller) => (text: string) => setWho((w) => ({ ...w, [field]: text }));
  return (
    <Screen
      title={inWords(tool, 100)}
      about={
        <>
          of{" "}
          <a href={"#/tools/" + encodeURIComponent(capability)}>
            <Untrusted text={capability} mono most={100} />
          </a>
        </>
      }
      tools={
        <a class="button" href="#/tools">
          All tools
        </a>
      }
    >
      <div class="stack">
        {drifted && (
          <p class="note wait">
            It has changed since it was accepted.{" "}
            <button type="button" class="fold" onClick={() => changes.current?.scrollIntoView()}>
              See what changed
            </button>
          </p>
        )}
        {unknown && (
          <p class="note wait">
            The capability has no tool <Untrusted text={tool} mono most={100} />. It may have been removed, or the
            address is wrong.
          </p>
        )}
        <div class="columns">
          {missing ? (
            <Empty>
              <b>Choose a tenant</b>A call is made as a user of one tenant: choose it at the top of the page, or name it
              here.
            </Empty>
          ) : loading && !t && !error ? (
            <Loading />
          ) : (
            <CallForm
              key={t ? "known" : "unknown"}
              who={who}
              capability={capability}
              tool={tool}
              schema={(t?.input_schema ?? {}) as Schema}
              onArgs={setArgs}
            />
          )}
          <div class="stack">
            <Card title="Call as">
              <div class="form">
                {t?.description && (
                  <p>
                    <Untrusted text={t.description} lines most={400} />
                  </p>
                )}
                <div class="two">
                  <Text
                    label="Tenant"
                    value={who.tenant}
                    onInput={put("tenant")}
                    disabled={Boolean(me.tenant)}
                    placeholder="none"
                  />
                  <Text label="Session" value={who.session} onInput={put("session")} placeholder="none" />
                  <Text label="User" value={who.user} onInput={put("user")} placeholder="none" />
                  <Text label="Agent" value={who.agent} onInput={put("agent")} placeholder="none" />
                </div>
                {!missing && <Trouble problem={error} retry={reload} what="the tools of a tenant" />}
                {t && !missing && (
                  <p class="row">
                    Policy: <Verdict of={t.policy} />
                    {t.level && <span class="dim">by the level {inWords(t.level, 40)}</span>}
                    {t.drifted && <Badge tone="wait">changed</Badge>}
                    <a href={explainAddress({ ...who, capability, tool })}>Why</a>
                  </p>
                )}
              </div>
            </Card>
            <Programs who={who} capability={capability} tool={tool} args={args} />
          </div>
        </div>
        {can(me, "viewer", allTenants) && !unknown && (
          <History path={"/v1/history/fleets/" + encodeURIComponent(capability)} params={{ tool }} />
        )}
        {drifted && (
          <div ref={changes}>
            <Drift of={entry} capability={capability} tool={tool} onAccept={reload} />
          </div>
        )}
      </div>
    </Screen>
  );
}

interface Props {
  who: Caller;
  capability: string;
  tool: string;
  schema: Schema;
  onArgs(args: string): void;
}

/** CallForm has the arguments, makes the call, and shows its answer. */
function CallForm({ who, capability, tool, schema, onArgs }: Props) {
  const { say } = useSession();
  const of = who.tenant.trim() || undefined;
  const { may, why } = useMay("admin", of);
  const form = fits(schema);
  const [raw, setRaw] = useState(!form || !schema["properties"]);
  const [value, setValue] = useState<unknown>(() => startOf(schema) ?? {});
  const [text, setText] = useState(() => JSON.stringify(startOf(schema) ?? {}, null, 2));
  const args = raw ? text : JSON.stringify(value);
  const wrong = useMemo(() => wrongIn(args), [args]);
  useEffect(() => onArgs(wrong ? "{}" : args), [args, wrong]);
  const [run, setRun] = useState<Run>();
  const stop = useRef(new AbortController());
  useEffect(() => () => stop.current.abort(), []);
  const call = async (approval = "", asked = args) => {
    stop.current.abort();
    const mine = new AbortController();
    stop.current = mine;
    let last: Told | undefined;
    const tell = (t: Told) => {
      last = t;
      setRun((r) => (mine.signal.aborted ? r : { ...r!, told: [...r!.told, t] }));
    };
    setRun({ state: "running", args: asked, who, told: [], approval });
    try {
      await invoke(who, capability, tool, asked, approval, mine.signal, tell);
      if (!mine.signal.aborted) say(inShort(last));
    } catch (err) {
      const p = asProblem(err);
      if (!mine.signal.aborted) tell({ kind: "failed", reason: p.reason, detail: p.detail });
    }
    if (!mine.signal.aborted) setRun((r) => ({ ...r!, state: "over" }));
  };
  const end = () => {
    stop.current.abort();
    setRun(
      (r) =>
        r && {
          ...r,
          state: "over",
          told: [...r.told, { kind: "failed", reason: "CANCELED", detail: "You ended the call." }],
        },
    );
  };
  const turn = () => {
    if (raw && !wrong) setValue(JSON.parse(text));
    else if (!raw) setText(JSON.stringify(value, null, 2));
    setRaw(!raw);
  };
  return (
    <div class="stack">
      <Card
        title="Arguments"
        tools={
          form && (
            <button type="button" class="button small" disabled={raw && Boolean(wrong)} onClick={turn}>
              {raw ? "As a form" : "As JSON"}
            </button>
          )
        }
      >
        <form
          class="form"
          onSubmit={(e) => {
            e.preventDefault();
            void call();
          }}
        >
          <Needs role="admin" tenant={of} what="Calls from here" />
          {raw ? (
            <ArgumentsField label="JSON" text={text} onText={setText} />
          ) : properties(schema) ? (
            <Fields schema={schema} value={value} depth={0} onChange={setValue} />
          ) : (
            <p class="dim">It takes no arguments.</p>
          )}
          <div class="row">
            <button
              type="submit"
              class="button primary"
              disabled={!may || Boolean(wrong) || run?.state === "running"}
              title={why}
            >
              Call
            </button>
            {run?.state === "running" && (
              <button type="button" class="button" onClick={end}>
                End the call
              </button>
            )}
          </div>
        </form>
      </Card>
      {run && <Outcome run={run} onApproved={(id) => void call(id, run.args)} />}
    </div>
  );
}

/** inShort says how a call ended. */
function inShort(end: Told | undefined): string {
  if (end?.kind === "ask") return "The call waits for approval.";
  if (end?.kind === "failed") return "The call failed.";
  return end?.kind === "done" && end.error ? "The tool returned an error." : "The call has ended.";
}

const properties = (s: Schema) => Object.keys((s["properties"] as object | undefined) ?? {}).length > 0;

function Programs({ who, capability, tool, args }: { who: Caller; capability: string; tool: string; args: string }) {
  const port = usePublicPort() ?? { url: "", key: true };
  return (
    <Card title="From a program">
      <Snippets of={snippets(port, who, capability, tool, args)} target={port} />
      <p class="dim small">Only a key that may set them sends x-user-id and x-agent-id.</p>
    </Card>
  );
}
