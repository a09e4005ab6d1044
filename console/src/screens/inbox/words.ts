// What the cards and the history say.
import type { Approval } from "../../api/types";
import { own, type Tone } from "../../parts/parts";
import { inWords } from "../../parts/Untrusted";

/** toolInWords is a tool's name as a person would say it: send_mail is Send mail. */
export function toolInWords(tool: string): string {
  const words = inWords(tool, 80)
    .replace(/([a-z0-9])([A-Z])/g, "$1 $2")
    .replace(/[_\-./]+/g, " ")
    .trim();
  if (!words) return "An unnamed tool";
  const lower = words.replace(/\b[A-Z][a-z]+\b/g, (w) => w.toLowerCase());
  return lower[0]!.toUpperCase() + lower.slice(1);
}

const states: Record<string, [Tone, string]> = {
  pending: ["wait", "Waiting"],
  approved: ["good", "Approved"],
  denied: ["bad", "Denied"],
  expired: ["plain", "Expired"],
  used: ["good", "Approved and used"],
};

const remembered: Record<string, string> = { session: "for this session", always: "always" };

const levels: Record<string, string> = {
  engine: "An engine asks",
  elsewhere: "An engine asks in its own page",
  shield: "The shield asks",
};

/** policyOf names what required the approval. */
export function policyOf(a: Approval): string {
  return (
    a.policy ||
    [own(levels, a.level) ?? (a.level ? `The policy of the level ${a.level}` : ""), a.why].filter(Boolean).join(": ") ||
    "The policy"
  );
}

/** by names the approver. */
export const byOf = (a: Approval) => a.answered_by || a.answers?.at(-1)?.by || "";

/** stateInWords is the name of a state, and its color. */
export const stateInWords = (state: string): [Tone, string] => own(states, state) ?? ["plain", inWords(state, 30)];

/** rememberedAs says for which further calls an answer is; undefined: for none. */
export const rememberedAs = (a: { remember?: string }) => own(remembered, a.remember);
