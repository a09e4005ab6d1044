// The question before a rule is set.
import { useState } from "preact/hooks";
import { pathOf, send } from "../../api/client";
import type { CatalogEntry, Rule } from "../../api/types";
import { Ask, Check, Choice, Text, useOneTenant } from "../../parts/ask";
import { useList } from "../../parts/list";
import { useGet } from "../../parts/load";
import { allTenants, useJudge } from "../../parts/roles";
import { useSession } from "../../parts/session";
import { inWords } from "../../parts/Untrusted";

interface Props {
  rule?: Rule | undefined;
  candidate: boolean;
  global: boolean;
  onClose(): void;
  onDone(): void;
}

const unknown = ["TENANT_UNKNOWN", "CAPABILITY_UNKNOWN", "TOOL_UNKNOWN"];

export function SetRule({ rule, candidate, global: forAll, onClose, onDone }: Props) {
  const { me, say } = useSession();
  const mine = useOneTenant(),
    judge = useJudge("admin");
  const [global, setGlobal] = useState(rule ? Boolean(rule.global) : forAll && judge(allTenants).may);
  const [of, setOf] = useState({
    tenant: rule?.tenant ?? mine,
    user: rule?.user ?? "",
    agent: rule?.agent ?? "",
    capability: rule?.capability ?? "",
    tool: rule?.tool ?? "",
  });
  const [policy, setPolicy] = useState(rule?.policy ?? "ask");
  const [asCandidate, setCandidate] = useState(candidate);
  const [force, setForce] = useState(false);
  const { items } = useList<CatalogEntry>("/v1/capabilities", "capabilities", { page_size: 200 });
  const put = (field: keyof typeof of) => (text: string) => setOf((o) => ({ ...o, [field]: text }));
  const known = items.some((c) => c.capability === of.capability);
  const tools =
    useGet<CatalogEntry>(known ? "/v1/capabilities/" + encodeURIComponent(of.capability) : undefined).value?.tools ??
    [];
  const { may, why } = judge(global ? allTenants : of.tenant.trim() || undefined);
  const run = async () => {
    const { tenant, user, agent, capability, tool } = of;
    const subject = global ? { global } : { tenant, user, agent };
    await send("PUT", pathOf("/v1/policies", { force: force || undefined }), {
      ...subject,
      capability,
      tool,
      policy,
      expire_time: rule?.expire_time,
      candidate: asCandidate,
    });
    say(
      `${policy}: calls of ${inWords(tool, 60)} of ${inWords(capability, 60)}${asCandidate ? ", as a candidate" : ""}.`,
    );
    onDone();
  };
  return (
    <Ask
      title={asCandidate ? "Set a candidate" : rule ? "Change this rule?" : "Set a rule"}
      verb={asCandidate ? "Set the candidate" : "Set the rule"}
      disabled={!may}
      run={run}
      onClose={onClose}
    >
      {(problem) => (
        <>
          {judge(allTenants).may && !rule && (
            <Check
              label="For all tenants"
              about="A global rule has neither user nor agent."
              checked={global}
              onInput={setGlobal}
            />
          )}
          {!global && (
            <>
              <Text
                label="Tenant"
                value={of.tenant}
                onInput={put("tenant")}
                disabled={Boolean(me.tenant || rule)}
                hint="Empty: the tenant default, in a gateway without tenants."
              />
              <div class="two">
                <Text label="User" value={of.user} onInput={put("user")} placeholder="any" disabled={Boolean(rule)} />
                <Text
                  label="Agent"
                  value={of.agent}
                  onInput={put("agent")}
                  placeholder="any"
                  disabled={Boolean(rule)}
                />
              </div>
            </>
          )}
          <div class="two">
            <Text
              label="Capability"
              value={of.capability}
              onInput={put("capability")}
              required
              disabled={Boolean(rule)}
              of={["*", ...items.map((c) => c.capability)]}
              hint="* matches any."
            />
            <Text
              label="Tool"
              value={of.tool}
              onInput={put("tool")}
              required
              disabled={Boolean(rule)}
              of={["*", ...tools.map((t) => t.name ?? "")]}
              hint="* matches any."
            />
          </div>
          <Choice
            label="Policy"
            value={policy}
            onInput={setPolicy}
            of={[
              ["allow", "allow: calls run"],
              ["ask", "ask: a person approves each call"],
              ["block", "block: calls are refused"],
            ]}
          />
          {!rule && (
            <Check
              label="As a candidate"
              about="It decides nothing. It shows what it would change."
              checked={asCandidate}
              onInput={setCandidate}
            />
          )}
          {(force || (problem && unknown.includes(problem.reason))) && (
            <Check
              label="Set it even if they do not exist yet"
              about="The tenant, the capability or the tool may come later."
              checked={force}
              onInput={setForce}
            />
          )}
          {why && <p class="note">{why}.</p>}
          {!asCandidate && <p class="dim small">It decides at all replicas at once.</p>}
        </>
      )}
    </Ask>
  );
}
