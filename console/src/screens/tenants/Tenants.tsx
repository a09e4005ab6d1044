// Tenants, their keys, and how much of their limits they use.
import { useState } from "preact/hooks";
import { pathOf, post, raw, send } from "../../api/client";
import type { Tenant, TenantsPage } from "../../api/types";
import { Ask, Check, Tabs, Text, Trouble, useSlow } from "../../parts/ask";
import { Export } from "../../parts/Export";
import { History } from "../../parts/history/History";
import { useList } from "../../parts/list";
import { useGet } from "../../parts/load";
import { Badge, Card, type Column, Empty, Facts, Loading, More, Screen, Search, Table } from "../../parts/parts";
import { allTenants, Needs, useMay } from "../../parts/roles";
import { useFilters } from "../../parts/route";
import { useSession } from "../../parts/session";
import { timeOf } from "../../parts/sorted";
import { Ago } from "../../parts/Time";
import { inWords, Untrusted } from "../../parts/Untrusted";
import { Configured } from "./Configured";
import { Days, Near, useDays } from "./days/Days";
import { Keys } from "./Keys";
import { Limits } from "./Limits";

export function Tenants({ rest }: { rest: string[] }) {
  const { me } = useSession();
  const id = rest[0] ?? me.tenant ?? "";
  if (id && id !== "-") return <One key={id} id={id} />;
  return (
    <Screen title="Tenants" about="Callers, their keys and their limits">
      <Tabs
        label="Tenants"
        here={id ? "#/tenants/-" : "#/tenants"}
        of={[
          ["#/tenants", "Tenants"],
          ["#/tenants/-", "Limits in use"],
        ]}
      />
      {id ? <Limits /> : <All />}
    </Screen>
  );
}

const pathTo = (id: string) => "/v1/tenants/" + encodeURIComponent(id);

function All() {
  const [{ query }, set] = useFilters(["query"]);
  const { items, page, error, loading, more, reload, of } = useList<Tenant, TenantsPage>("/v1/tenants", "tenants", {
    query: useSlow(query.trim()),
    page_size: 100,
  });
  const { me } = useSession();
  const { may, why } = useMay("admin", allTenants);
  const [asked, ask] = useState(false);
  const columns: Column<Tenant>[] = [
    {
      title: "Tenant",
      by: (t) => t.id,
      cell: (t) => (
        <a href={"#/tenants/" + encodeURIComponent(t.id)}>
          <Untrusted text={t.id} mono most={70} />
        </a>
      ),
    },
    { title: "Name", kind: "wide", by: (t) => t.name, cell: (t) => <Untrusted text={t.name} most={120} /> },
    { title: "State", by: (t) => Number(Boolean(t.disabled)), cell: (t) => <State of={t} /> },
    { title: "Capabilities", cell: (t) => <Patterns of={t} /> },
    { title: "From", by: (t) => t.source, cell: (t) => <Untrusted text={from(t)} most={30} /> },
    { title: "Changed", by: (t) => timeOf(t.update_time), cell: (t) => <Changed of={t} /> },
  ];
  return (
    <div class="stack">
      {page?.creatable && <Needs role="admin" tenant={allTenants} />}
      {page && !page.creatable && !me.tenants && (
        <p class="dim small">
          Tenants are in the configuration. To create them here, set <span class="mono">identity.store: redis</span>.
        </p>
      )}
      <div class="row">
        <Search label="Search by id or name" value={query} onInput={(v) => set("query", v)} />
        <Export of={of} name="tenants" />
        {page?.creatable && (
          <button type="button" class="button primary" disabled={!may} title={why} onClick={() => ask(true)}>
            Create a tenant
          </button>
        )}
      </div>
      <Trouble problem={error} retry={reload} what="tenants" />
      {loading && items.length === 0 && !error && <Loading />}
      {page && (
        <Card>
          <Table
            label="Tenants"
            more={more}
            columns={columns}
            rows={items}
            keyOf={(t) => t.id}
            empty={query ? "No tenants match." : "There are no tenants."}
          />
        </Card>
      )}
      <More more={more} shown={items.length} />
      {asked && <Create onClose={() => ask(false)} onDone={reload} />}
    </div>
  );
}

const from = (t: Tenant) => (t.source === "file" ? "configuration" : t.source);
const State = ({ of }: { of: Tenant }) => (
  <Badge tone={of.disabled ? "bad" : "good"}>{of.disabled ? "disabled" : "active"}</Badge>
);
const Changed = ({ of }: { of: Tenant }) => (
  <>
    <Ago time={of.update_time} />
    {of.updated_by && (
      <div class="dim small">
        by <Untrusted text={of.updated_by} most={80} />
      </div>
    )}
  </>
);
const Patterns = ({ of }: { of: Tenant }) => (
  <Untrusted text={(of.capabilities ?? []).join(", ")} none="none" mono most={120} />
);

function Create({ onClose, onDone }: { onClose(): void; onDone(): void }) {
  const { say } = useSession();
  const [id, setID] = useState("");
  const [name, setName] = useState("");
  const [capabilities, setCapabilities] = useState("*");
  const run = async () => {
    await post("/v1/tenants", { id, name, capabilities: patterns(capabilities) });
    say(`Tenant ${inWords(id, 70)} created.`);
    onDone();
  };
  return (
    <Ask title="Create a tenant" verb="Create" run={run} onClose={onClose}>
      <Text
        label="Id"
        value={id}
        onInput={setID}
        required
        most={63}
        hint="Letters, digits, hyphens, dots and underscores. It never changes."
      />
      <Text label="Name" value={name} onInput={setName} hint="For people." />
      <Text
        label="Capabilities"
        value={capabilities}
        onInput={setCapabilities}
        most={2000}
        hint="Patterns, separated by commas. * matches anything."
      />
    </Ask>
  );
}

const patterns = (text: string) => text.split(/[\s,]+/).filter(Boolean);

function One({ id }: { id: string }) {
  const { me } = useSession();
  const { value: t, error, reload } = useGet<Tenant>(pathTo(id));
  const usage = useDays(id);
  const { may: mayAll, why: whyAll } = useMay("admin", allTenants);
  const [asked, ask] = useState<"state" | "change" | "delete">();
  const unknown = error?.reason === "TENANT_UNKNOWN";
  const fixed = t?.source === "file";
  const may = mayAll && !fixed,
    why = fixed ? "It is in the configuration: change it there" : whyAll;
  return (
    <Screen
      title={`Tenant ${inWords(id, 70)}`}
      tools={
        me.tenant ? undefined : (
          <a class="button" href="#/tenants">
            All tenants
          </a>
        )
      }
    >
      <div class="stack">
        <Near of={usage.value} />
        {unknown ? (
          <Empty>
            <b>
              There is no tenant <Untrusted text={id} mono most={70} />
            </b>
            The charts count the calls that named it. A gateway without tenants counts all calls as those of default.
          </Empty>
        ) : (
          <Trouble problem={error} retry={reload} what="tenants" />
        )}
        {!t && !error && <Loading />}
        {t && (
          <Card
            title={<Untrusted text={t.name || t.id} most={120} />}
            tools={
              <span class="row actions">
                <button type="button" class="button small" disabled={!may} title={why} onClick={() => ask("change")}>
                  Change
                </button>
                <button type="button" class="button small" disabled={!may} title={why} onClick={() => ask("state")}>
                  {t.disabled ? "Enable" : "Disable"}
                </button>
                <button
                  type="button"
                  class="button small deny"
                  disabled={!may}
                  title={why}
                  onClick={() => ask("delete")}
                >
                  Delete
                </button>
              </span>
            }
          >
            <Facts
              of={[
                ["State", <State of={t} />],
                ["Capabilities", <Patterns of={t} />],
                ["Created", <Ago time={t.create_time} />],
                ["Changed", <Changed of={t} />],
                ["From", fixed ? "the configuration" : <Untrusted text={t.source} most={30} />],
              ]}
            />
            {!may && <p class="dim small">{why}.</p>}
          </Card>
        )}
        <History path={"/v1/history/tenants/" + encodeURIComponent(id)} />
        {!unknown && <Keys tenant={id} />}
        {t && (
          <Configured
            tenant={t}
            why={may ? undefined : why}
            save={async (limits) => {
              await send("PATCH", pathOf(pathTo(id), { update_mask: "limits" }), {
                etag: t.etag,
                ...(limits && { limits }),
              });
              reload();
            }}
          />
        )}
        <Limits tenant={id} />
        <Days tenant={id} usage={usage} />
      </div>
      {t && asked === "change" && <ChangeTenant tenant={t} onClose={() => ask(undefined)} onDone={reload} />}
      {t && asked === "state" && <Switch tenant={t} onClose={() => ask(undefined)} onDone={reload} />}
      {t && asked === "delete" && <Delete tenant={t} onClose={() => ask(undefined)} />}
    </Screen>
  );
}

interface Props {
  tenant: Tenant;
  onClose(): void;
  onDone(): void;
}

const update = (t: Tenant, fields: Partial<Tenant>) =>
  send("PATCH", pathOf(pathTo(t.id), { update_mask: Object.keys(fields).join(",") }), { etag: t.etag, ...fields });

function ChangeTenant({ tenant: t, onClose, onDone }: Props) {
  const { say } = useSession();
  const [name, setName] = useState(t.name ?? "");
  const [capabilities, setCapabilities] = useState((t.capabilities ?? []).join(", "));
  const run = async () => {
    await update(t, { name, capabilities: patterns(capabilities) });
    say("The tenant is changed.");
    onDone();
  };
  return (
    <Ask title={`Change ${inWords(t.id, 70)}`} verb="Change" run={run} onClose={onClose}>
      <Text label="Name" value={name} onInput={setName} />
      <Text
        label="Capabilities"
        value={capabilities}
        onInput={setCapabilities}
        most={2000}
        hint="Patterns, separated by commas. Empty: none."
      />
    </Ask>
  );
}

function Switch({ tenant: t, onClose, onDone }: Props) {
  const { say } = useSession();
  const run = async () => {
    await update(t, { disabled: !t.disabled });
    say(t.disabled ? "The tenant is enabled." : "The tenant is disabled.");
    onDone();
  };
  return (
    <Ask
      title={t.disabled ? "Enable this tenant?" : "Disable this tenant?"}
      verb={t.disabled ? "Enable" : "Disable"}
      danger={!t.disabled}
      run={run}
      onClose={onClose}
    >
      <p>
        <b>
          <Untrusted text={t.id} mono />
        </b>{" "}
        <Untrusted text={t.name} none="" />
      </p>
      <p class="dim">
        {t.disabled
          ? "Its keys and tokens work again at all replicas."
          : "All its calls are refused at all replicas (TENANT_DISABLED). Nothing is deleted."}
      </p>
    </Ask>
  );
}

function Delete({ tenant: t, onClose }: { tenant: Tenant; onClose(): void }) {
  const { say } = useSession();
  const [typed, setTyped] = useState("");
  const [force, setForce] = useState(false);
  const run = async () => {
    await raw(pathTo(t.id), { method: "DELETE" }, { force: force || undefined, etag: t.etag });
    say(`The tenant ${inWords(t.id, 70)} is deleted.`);
    location.hash = "#/tenants";
  };
  return (
    <Ask title="Delete this tenant?" verb="Delete" danger disabled={typed !== t.id} run={run} onClose={onClose}>
      <p class="dim">It can no longer call, at any replica. This cannot be undone. To keep it, disable it instead.</p>
      <Check
        label="Delete its keys as well"
        about="Without this, a tenant with keys is not deleted."
        checked={force}
        onInput={setForce}
      />
      <Text label={`To delete it, type ${inWords(t.id, 70)}`} value={typed} onInput={setTyped} required />
    </Ask>
  );
}
