// The calls that a rule applies to.
import { Badge } from "../../parts/parts";
import { Untrusted } from "../../parts/Untrusted";

/** RuleTool is the capability and the tool that a rule is about. */
export const RuleTool = ({ rule: r }: { rule: { capability?: string; tool?: string } }) => (
  <>
    <Untrusted text={r.capability === "*" ? "any capability" : r.capability} mono most={80} />{" "}
    <span class="dim">/</span> <Untrusted text={r.tool === "*" ? "any tool" : r.tool} mono most={120} />
  </>
);

/** Subject is whose calls a rule applies to. */
export function Subject({
  rule: r,
}: {
  rule: { tenant?: string; global?: boolean; user?: string; agent?: string; tenant_unknown?: boolean };
}) {
  return (
    <div class="facts-line">
      {r.global ? (
        <span>all tenants</span>
      ) : (
        <span>
          <span class="dim">tenant</span> <Untrusted text={r.tenant} mono none="default" most={60} />
        </span>
      )}
      {r.user && (
        <span>
          <span class="dim">user</span> <Untrusted text={r.user} mono most={80} />
        </span>
      )}
      {r.agent && (
        <span>
          <span class="dim">agent</span> <Untrusted text={r.agent} mono most={80} />
        </span>
      )}
      {r.tenant_unknown && <Badge tone="wait">no such tenant</Badge>}
    </div>
  );
}
