// How the tool of an approval differs from its accepted version.
import type { Approval } from "../../api/types";
import { allTenants, can } from "../../parts/roles";
import { useSession } from "../../parts/session";
import { Untrusted } from "../../parts/Untrusted";

const fewLines = 6;

/** The first line says that the tool has changed; "+ " begins what was added, and "- " what was removed. */
export function ToolChange({ of: a, all = false }: { of: Approval; all?: boolean }) {
  const { me } = useSession();
  if (!a.tool_change) return null;
  const lines = a.tool_change.split("\n").slice(1),
    shown = all ? lines : lines.slice(0, fewLines);
  return (
    <div class="tool-change">
      <p class="note wait">
        This tool has changed since its version was accepted
        {lines.length > 0 ? "." : ", and what has changed is not known here."}{" "}
        {can(me, "viewer", allTenants) && (
          <a href={`#/tools/${encodeURIComponent(a.capability)}/${encodeURIComponent(a.tool)}`}>See what changed</a>
        )}
      </p>
      {shown.length > 0 && (
        <ul class="diff" tabIndex={0} aria-label="What has changed in the tool">
          {shown.map((l, i) => (
            <li key={i} class={l.startsWith("+ ") ? "added" : l.startsWith("- ") ? "removed" : "gap"}>
              <Untrusted text={l} lines most={all ? 1200 : 300} />
            </li>
          ))}
          {shown.length < lines.length && <li class="gap">… {lines.length - shown.length} more lines</li>}
        </ul>
      )}
    </div>
  );
}
