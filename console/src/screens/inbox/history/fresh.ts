// What has ended since a list of the history was read.
import type { Approval, PastApproval } from "../../../api/types";
import { keyOf } from "../key";

const ends = new Set(["approved", "denied", "expired"]);

/** endsBy reports whether a change ends an approval. The event is empty if the page itself has read or answered it. */
export const endsBy = (a: Approval, event: string) => (event ? ends.has(event) : a.state !== "pending");

/** withFresh puts a newer first page before a list. undefined: between them, something may be missing. */
export function withFresh(list: PastApproval[], first: PastApproval[]): PastApproval[] | undefined {
  const keys = new Set(first.map(keyOf)),
    rest = list.filter((a) => !keys.has(keyOf(a)));
  return rest.length === list.length && list.length > 0 && first.length > 0 ? undefined : [...first, ...rest];
}
