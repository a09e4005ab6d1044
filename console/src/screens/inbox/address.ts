import { mode } from "../../api/client";

/** addressOf is the page of one approval. */
export function addressOf(a: { tenant: string; id: string }): string {
  return mode === "inbox"
    ? `#/${encodeURIComponent(a.tenant)}/${encodeURIComponent(a.id)}`
    : `#/inbox/${encodeURIComponent(a.id)}`;
}
