// How a call ended.
import type { RecentCall } from "../../api/types";
import { Badge } from "../../parts/parts";
import { inWords } from "../../parts/Untrusted";

/** Reasons of calls that wait for a person's approval: they are neither refused nor failed. */
const asked = new Set(["APPROVAL_REQUIRED", "APPROVAL_PENDING"]);

/** Result is how a call ended, in one word. */
export function Result({ of: c }: { of: RecentCall }) {
  if (asked.has(c.reason ?? ""))
    return (
      <Badge tone="info" title={c.reason ?? ""}>
        asked
      </Badge>
    );
  if (c.reason) return <Badge tone="wait">{inWords(c.reason, 60)}</Badge>;
  if (c.code && c.code !== "OK") return <Badge tone="bad">{inWords(c.code, 60)}</Badge>;
  if (c.outcome && c.outcome !== "success")
    return <Badge tone="bad">{c.outcome === "tool_error" ? "tool error" : inWords(c.outcome, 40)}</Badge>;
  return <Badge tone="good">OK</Badge>;
}

/** tookOf is the duration of a call, which JSON has in seconds: 0.250s. */
export function tookOf(c: { duration?: string | undefined }): string {
  const s = Number.parseFloat(c.duration ?? "");
  if (Number.isNaN(s)) return "–";
  return s >= 10
    ? `${s.toFixed(0)} s`
    : s >= 1
      ? `${s.toFixed(1)} s`
      : s >= 0.01
        ? `${Math.round(s * 1000)} ms`
        : `${(s * 1000).toFixed(1)} ms`;
}
