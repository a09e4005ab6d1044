import { mode } from "../../api/client";
import type { Approval } from "../../api/types";

/** addressOf is the page of one approval. */
export function addressOf(a: Approval): string {
  return mode === "inbox"
    ? `#/${encodeURIComponent(a.tenant)}/${encodeURIComponent(a.id)}`
    : `#/inbox/${encodeURIComponent(a.id)}`;
}
