// Which arguments a person can read before an answer.
import type { Approval } from "../../api/types";

/** readable reports whether an approval has all arguments: neither an excerpt nor nothing in their place. */
export const readable = (a: Approval) => !a.arguments_excerpt && Boolean(a.arguments_json || a.arguments);

/** withArguments returns an approval with the arguments of another reading of it. */
export const withArguments = (a: Approval, of: Approval): Approval => ({
  ...a,
  arguments: of.arguments ?? "",
  arguments_json: of.arguments_json ?? "",
  arguments_excerpt: of.arguments_excerpt ?? false,
});

/** approvable reports whether a person may approve a call whose arguments are shown as the approval has them. */
export const approvable = (a: Approval) => !a.may_not_approve_why && readable(a);
