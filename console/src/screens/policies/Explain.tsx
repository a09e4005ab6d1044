// Why a call is allowed, asked about or blocked: all levels in their order, and the one that decides.
import { useEffect, useRef, useState } from "preact/hooks";
import type { Explained, Look } from "../../api/types";
import { Check, Text, Trouble, useOneTenant, Verdict } from "../../parts/ask";
import { useGet } from "../../parts/load";
import { Badge, Card, Empty, Loading, own } from "../../parts/parts";
import { useSession } from "../../parts/session";
import { inWords, Untrusted } from "../../parts/Untrusted";
import { explainAddress, type nameFields } from "./address";

type Names = Record<(typeof nameFields)[number], string>;

/** start: the address names a call, which is explained at once. */
export function Explain({ of, start }: { of: Names; start: boolean }) {
  const { me } = useSession();
  const mine = useOneTenant();
  const [names, setNames] = useState({ ...of, tenant: of.tenant || mine });
  const [candidate, setCandidate] = useState(false);
  const [turn, again] = useState(0);
  // The tenant at the top of the page, when it changes.
  const first = useRef(true);
  useEffect(() => {
    if (!first.current) setNames((n) => ({ ...n, tenant: mine }));
    first.current = false;
  }, [mine]);
  const ready = start && of.capability && of.tool;
  const put = (field: keyof Names) => (text: string) => setNames((n) => ({ ...n, [field]: text }));
  const asked = (e: Event) => {
    e.preventDefault();
    const to = explainAddress(names);
    if (location.hash === to) again(turn + 1);
    else location.hash = to;
  };
  return (
    <div class="columns">
      <Card title="Which call?">
        <form class="form" onSubmit={asked}>
          <Text
            label="Tenant"
            value={names.tenant}
            onInput={put("tenant")}
            disabled={Boolean(me.tenant)}
            hint="Empty in a gateway without tenants."
          />
          <div class="two">
            <Text label="User" value={names.user} onInput={put("user")} placeholder="nobody in particular" />
            <Text label="Agent" value={names.agent} onInput={put("agent")} placeholder="none in particular" />
          </div>
          <div class="two">
            <Text label="Capability" value={names.capability} onInput={put("capability")} required />
            <Text label="Tool" value={names.tool} onInput={put("tool")} required />
          </div>
          <Check
            label="With the candidates"
            about="Shows what the candidates would decide."
            checked={candidate}
            onInput={setCandidate}
          />
          <button type="submit" class="button primary">
            Explain
          </button>
        </form>
      </Card>
      {ready ? (
        <Chain key={turn} names={{ ...of, tenant: of.tenant || mine }} candidate={candidate} />
      ) : (
        <Empty>
          <b>Name a call</b>The chain of levels is shown, and the one that decides.
        </Empty>
      )}
    </div>
  );
}

function Chain({ names, candidate }: { names: Names; candidate: boolean }) {
  const { value, error, reload } = useGet<Explained>("/v1/policies:explain", {
    ...names,
    candidate: candidate || undefined,
    force: true,
  });
  if (error) return <Trouble problem={error} retry={reload} what="explanations" />;
  if (!value) return <Loading />;
  const looks = value.looks ?? [],
    decided = looks.findIndex((l) => l.decided);
  return (
    <Card
      title={
        <>
          Decision: <Verdict of={value.policy} />
        </>
      }
    >
      {value.unknown && (
        <p class="note wait">
          The catalog does not know this call: <Untrusted text={value.unknown} most={400} />. The rules decide about it
          all the same.
        </p>
      )}
      <p class="dim">
        The level <b>{levelName(value.level)}</b> decides{candidate && ", with the candidates"}. The first level with a
        decision counts.
      </p>
      {value.candidate_policy && value.candidate_policy !== value.policy && (
        <p class="note wait">
          The candidates would decide <b>{inWords(value.candidate_policy, 30)}</b>, at the level{" "}
          {levelName(value.candidate_level)}.
        </p>
      )}
      <ol class="chain">
        {looks.map((l, i) => (
          <li key={i} class={l.decided ? "decided" : decided >= 0 && i > decided ? "over" : ""}>
            <span>
              {i + 1}. <b>{levelName(l.level)}</b>
              <br />
              <Where look={l} />
            </span>
            <span class="row">
              {l.decided && <Badge tone="info">decides</Badge>}
              {l.policy ? <Verdict of={l.policy} /> : <span class="dim small">nothing here</span>}
            </span>
          </li>
        ))}
      </ol>
    </Card>
  );
}

const levels: Record<string, string> = {
  "user+agent": "rule of the user with the agent",
  user: "rule of the user",
  "tenant+agent": "rule of the tenant for the agent",
  tenant: "rule of the tenant",
  global: "rule for all tenants",
  manifest: "recommendation of the tool's author",
  fleet: "policy of the fleet",
  default: "default of the gateway",
  shield: "the shield",
};

const levelName = (level: string | undefined) => own(levels, level) ?? inWords(level ?? "", 40);

function Where({ look: l }: { look: Look }) {
  if (!l.capability && !l.tool && !l.user && !l.agent) return null;
  return (
    <span class="facts-line small">
      {l.user && (
        <span>
          <span class="dim">user</span> <Untrusted text={l.user} mono most={80} />
        </span>
      )}
      {l.agent && (
        <span>
          <span class="dim">agent</span> <Untrusted text={l.agent} mono most={80} />
        </span>
      )}
      {l.capability && (
        <span>
          <Untrusted text={l.capability} mono most={80} /> / <Untrusted text={l.tool} mono most={120} />
        </span>
      )}
    </span>
  );
}
