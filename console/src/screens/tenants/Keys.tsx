// The API keys of a tenant. A key is shown once, when it is made.
import { useState } from "preact/hooks";
import { now, post } from "../../api/client";
import type { Key, NewKey } from "../../api/types";
import { Ask, Choice, Text, Trouble, useSlow } from "../../parts/ask";
import { Export } from "../../parts/Export";
import { useList } from "../../parts/list";
import { Badge, Card, type Column, Loading, More, own, Search, Table, type Tone } from "../../parts/parts";
import { useMay } from "../../parts/roles";
import { useFilters } from "../../parts/route";
import { useSession } from "../../parts/session";
import { timeOf } from "../../parts/sorted";
import { Ago, Exact } from "../../parts/Time";
import { inWords, Untrusted } from "../../parts/Untrusted";
import { Made } from "./Made";

const tones: Record<string, Tone> = { active: "good", replaced: "wait", expired: "plain", revoked: "bad" };

interface Asked {
  what: "create" | "rotate" | "revoke";
  key?: Key;
}

export function Keys({ tenant }: { tenant: string }) {
  const path = `/v1/tenants/${encodeURIComponent(tenant)}/keys`;
  const [{ query }, set] = useFilters(["query"]);
  const { items, page, error, loading, more, reload, of } = useList<Key>(path, "keys", {
    query: useSlow(query.trim()),
    page_size: 100,
  });
  const { may, why } = useMay("admin", tenant);
  const [asked, ask] = useState<Asked>();
  const [made, setMade] = useState<NewKey>();
  const close = () => ask(undefined);
  const done = (k?: NewKey) => {
    setMade(k);
    reload();
  };
  const columns: Column<Key>[] = [
    {
      title: "Key",
      by: (k) => k.name || k.id,
      cell: (k) => (
        <>
          <Untrusted text={k.id} mono most={60} />
          {k.name && (
            <div class="dim small">
              <Untrusted text={k.name} most={100} />
            </div>
          )}
        </>
      ),
    },
    {
      title: "State",
      by: (k) => k.state,
      cell: (k) => (
        <>
          <Badge tone={own(tones, k.state) ?? "plain"}>{inWords(k.state ?? "", 20)}</Badge>
          {k.state === "replaced" && k.end_time && (
            <div class="dim small">
              until <Exact time={k.end_time} />
            </div>
          )}
        </>
      ),
    },
    {
      title: "Scopes",
      kind: "wide",
      cell: (k) => (
        <>
          <Untrusted text={(k.scopes ?? []).join(", ")} none="none" most={160} />
          {(k.asserts ?? []).length > 0 && (
            <div class="dim small">
              asserts <Untrusted text={k.asserts!.join(", ")} />
            </div>
          )}
        </>
      ),
    },
    {
      title: "Expires",
      by: (k) => timeOf(k.expire_time),
      cell: (k) => (k.expire_time ? <Exact time={k.expire_time} /> : "never"),
    },
    {
      title: "Created",
      by: (k) => timeOf(k.create_time),
      cell: (k) => (
        <>
          <Ago time={k.create_time} />
          {k.created_by && (
            <div class="dim small">
              by <Untrusted text={k.created_by} most={80} />
            </div>
          )}
        </>
      ),
    },
    { title: "Actions", kind: "num", cell: (k) => <Actions of={k} may={may} why={why} ask={ask} /> },
  ];
  return (
    <Card
      title="Keys"
      tools={
        <span class="row">
          <Search label="Search keys" value={query} onInput={(v) => set("query", v)} />
          <Export of={of} name="keys" />
          <button type="button" class="button" disabled={!may} title={why} onClick={() => ask({ what: "create" })}>
            Create a key
          </button>
        </span>
      }
    >
      {!may && <p class="dim small">{why}.</p>}
      <Trouble problem={error} retry={reload} what="keys" />
      {loading && items.length === 0 && !error && <Loading />}
      {page && (
        <Table
          label="Keys"
          more={more}
          columns={columns}
          rows={items}
          keyOf={(k) => k.id}
          empty={query ? "No keys match." : "It has no keys. Tokens of issuers and certificates need none."}
        />
      )}
      <More more={more} shown={items.length} />
      {asked?.what === "create" && <Create path={path} onClose={close} onDone={done} />}
      {asked?.what === "rotate" && <Rotate path={path} of={asked.key!} onClose={close} onDone={done} />}
      {asked?.what === "revoke" && <Revoke path={path} of={asked.key!} onClose={close} onDone={done} />}
      {made?.credential && <Made tenant={tenant} of={made} onClose={() => setMade(undefined)} />}
    </Card>
  );
}

function Actions({ of: k, may, why, ask }: { of: Key; may: boolean; why: string | undefined; ask(a: Asked): void }) {
  const over = k.state !== "active" && k.state !== "replaced";
  const fixed = k.source === "file";
  const no = !may || fixed,
    title = may && fixed ? "It is in the configuration: change it there" : why;
  if (over) return <span class="dim">–</span>;
  return (
    <span class="row actions">
      {k.state === "active" && (
        <button
          type="button"
          class="button small"
          disabled={no}
          title={title}
          aria-label={`Rotate ${inWords(k.id, 60)}`}
          onClick={() => ask({ what: "rotate", key: k })}
        >
          Rotate
        </button>
      )}
      <button
        type="button"
        class="button small"
        disabled={no}
        title={title}
        aria-label={`Revoke ${inWords(k.id, 60)}`}
        onClick={() => ask({ what: "revoke", key: k })}
      >
        Revoke
      </button>
    </span>
  );
}

interface Props {
  path: string;
  onClose(): void;
  onDone(made?: NewKey): void;
}

const scopes = [
  "invoke",
  "read",
  "approve",
  "policy",
  "admin",
  "role.viewer",
  "role.operator",
  "role.approver",
  "role.admin",
  "engine.chat",
  "engine.agent",
  "engine.subagent",
  "engine.admin",
  "engine.shield",
];

function Boxes({
  title,
  of,
  chosen,
  onChange,
}: {
  title: string;
  of: string[];
  chosen: string[];
  onChange(chosen: string[]): void;
}) {
  return (
    <fieldset>
      <legend>{title}</legend>
      <div class="scopes">
        {of.map((s) => (
          <label key={s}>
            <input
              type="checkbox"
              checked={chosen.includes(s)}
              onChange={(e) => onChange(e.currentTarget.checked ? [...chosen, s] : chosen.filter((c) => c !== s))}
            />
            {s}
          </label>
        ))}
      </div>
    </fieldset>
  );
}

function Create({ path, onClose, onDone }: Props) {
  const { say } = useSession();
  const [name, setName] = useState("");
  const [may, setMay] = useState(["invoke", "read"]);
  const [asserts, setAsserts] = useState<string[]>([]);
  const [days, setDays] = useState("90");
  const run = async () => {
    const expire_time = days ? new Date(now() + Number(days) * 86_400_000).toISOString() : undefined;
    const made = await post<NewKey>(path, { name, scopes: may, asserts, expire_time });
    say("The key is created. Copy it now.");
    onDone(made);
  };
  return (
    <Ask title="Create a key" verb="Create" disabled={may.length === 0} run={run} onClose={onClose}>
      <Text label="Name" value={name} onInput={setName} hint="Shown to people, such as the program that uses it." />
      <Boxes title="Scopes" of={scopes} chosen={may} onChange={setMay} />
      <Boxes
        title="Identity headers that its holder may set"
        of={["user", "agent"]}
        chosen={asserts}
        onChange={setAsserts}
      />
      <Choice
        label="Expires"
        value={days}
        onInput={setDays}
        of={[
          ["7", "in 7 days"],
          ["30", "in 30 days"],
          ["90", "in 90 days"],
          ["365", "in a year"],
          ["", "never"],
        ]}
      />
    </Ask>
  );
}

function Rotate({ path, of, onClose, onDone }: Props & { of: Key }) {
  const { say } = useSession();
  const [grace, setGrace] = useState("86400s");
  const run = async () => {
    const made = await post<NewKey>(`${path}/${encodeURIComponent(of.id)}:rotate`, { grace });
    say("The new key is created. Copy it now.");
    onDone(made);
  };
  return (
    <Ask title="Rotate this key?" verb="Rotate" run={run} onClose={onClose}>
      <p>
        <Untrusted text={of.id} mono /> <Untrusted text={of.name} none="" />
      </p>
      <p class="dim">A new key with the same scopes is created. The old one stays valid for a while.</p>
      <Choice
        label="The old key ends"
        value={grace}
        onInput={setGrace}
        of={[
          ["0s", "now"],
          ["3600s", "in an hour"],
          ["86400s", "in a day"],
          ["604800s", "in 7 days"],
          ["2592000s", "in 30 days"],
        ]}
      />
    </Ask>
  );
}

function Revoke({ path, of, onClose, onDone }: Props & { of: Key }) {
  const { say } = useSession();
  const run = async () => {
    await post(`${path}/${encodeURIComponent(of.id)}:revoke`);
    say("The key is revoked.");
    onDone();
  };
  return (
    <Ask title="Revoke this key?" verb="Revoke" danger run={run} onClose={onClose}>
      <p>
        <Untrusted text={of.id} mono /> <Untrusted text={of.name} none="" />
      </p>
      <p class="dim">It stops working at all replicas at once. This cannot be undone.</p>
    </Ask>
  );
}
