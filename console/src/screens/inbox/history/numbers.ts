// The numbers of the history of approvals, in words.
import { span } from "../../../parts/Time";

/** took is a duration of the API, in words; –: there is none. */
export function took(duration: string | undefined): string {
  const ms = 1000 * parseFloat(duration ?? "");
  if (Number.isNaN(ms)) return "–";
  return ms < 1000 ? "under 1 s" : span(ms);
}

/** share is a part of a whole in percent; –: there is no whole. */
export const share = (part: number | undefined) => (part === undefined ? "–" : `${Math.round(100 * part)}%`);

export const count = (n: number | undefined) => (n ?? 0).toLocaleString("en");
