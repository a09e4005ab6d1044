// A day in words.
const date = new Intl.DateTimeFormat("en-GB", { day: "numeric", month: "short", timeZone: "UTC" });

/** dayOf is the day of a time, in UTC; –: there is none. */
export function dayOf(time: string | undefined): string {
  const ms = Date.parse(time ?? "");
  return Number.isNaN(ms) ? "–" : date.format(ms);
}
