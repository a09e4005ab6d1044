// The question before a toolset is set.
import { useState } from "preact/hooks";
import { send } from "../../api/client";
import type { Toolset, ToolsetEntry } from "../../api/types";
import { Ask, Check, Text, useOneTenant } from "../../parts/ask";
import { Field } from "../../parts/parts";
import { allTenants, useJudge } from "../../parts/roles";
import { useSession } from "../../parts/session";
import { inWords } from "../../parts/Untrusted";

interface Props {
  of?: Toolset;
  onClose(): void;
  onDone(): void;
}

const example: ToolsetEntry[] = [{ capability: "mail", tool: "send" }];

/** textOf returns the entries as a person edits them: JSON without what the gateway adds. */
function textOf(entries: ToolsetEntry[]): string {
  const own = entries.map(({ capability, tool, name, description, hash, arguments: args }) => ({
    capability,
    tool,
    name: name || undefined,
    description: description || undefined,
    hash: hash || undefined,
    arguments: args || undefined,
  }));
  return JSON.stringify(own, null, 2);
}

export function SetToolset({ of, onClose, onDone }: Props) {
  const { me, say } = useSession();
  const mine = useOneTenant(),
    judge = useJudge("admin");
  const [global, setGlobal] = useState(Boolean(of?.global));
  const [name, setName] = useState(of?.name ?? ""),
    [tenant, setTenant] = useState(of?.tenant ?? mine),
    [groups, setGroups] = useState((of?.groups ?? []).join(" ")),
    [tools, setTools] = useState(textOf(of?.tools ?? example));
  const { may, why } = judge(global ? allTenants : tenant.trim() || undefined);
  let entries: unknown;
  try {
    entries = JSON.parse(tools);
  } catch {
    entries = undefined;
  }
  const run = async () => {
    await send("PUT", "/v1/toolsets/" + encodeURIComponent(name), {
      ...(global ? { global } : { tenant: tenant.trim() }),
      groups: groups.split(/\s+/).filter(Boolean),
      tools: entries,
      etag: of?.etag,
    });
    say(`The toolset ${inWords(name, 60)} is set.`);
    onDone();
  };
  return (
    <Ask
      title={of ? "Change this toolset?" : "Set a toolset"}
      verb="Set the toolset"
      disabled={!may || !Array.isArray(entries)}
      run={run}
      onClose={onClose}
    >
      <Text
        label="Name"
        value={name}
        onInput={setName}
        required
        most={63}
        disabled={Boolean(of)}
        hint="Its address is /mcp/NAME: lower-case letters, digits, hyphens and underscores."
      />
      {judge(allTenants).may && !of && (
        <Check label="For all tenants" about="Otherwise for one tenant." checked={global} onInput={setGlobal} />
      )}
      {!global && (
        <Text
          label="Tenant"
          value={tenant}
          onInput={setTenant}
          disabled={Boolean(me.tenant || of)}
          hint="Empty stands for default, without tenants."
        />
      )}
      <Text label="Groups" value={groups} onInput={setGroups} most={4096} placeholder="all callers" />
      <Field
        label="Tools"
        hint="A JSON array of capability, tool, name, description, hash and arguments, an object as text."
      >
        {(id, about) => (
          <textarea
            id={id}
            class="input mono"
            rows={12}
            value={tools}
            required
            spellcheck={false}
            aria-describedby={about}
            onInput={(e) => setTools(e.currentTarget.value)}
          />
        )}
      </Field>
      {!Array.isArray(entries) && <p class="note">The tools are not a JSON array.</p>}
      {why && <p class="note">{why}.</p>}
      <p class="dim small">It is in force at all replicas at once.</p>
    </Ask>
  );
}
