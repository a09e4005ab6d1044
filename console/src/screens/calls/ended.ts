// When a call ended.
const clock = new Intl.DateTimeFormat("en-GB", { timeStyle: "medium" });
const day = new Intl.DateTimeFormat("en-GB", { day: "numeric", month: "short" });

/** endedAt is the time of day at which a call ended; of other days than today, with the day. */
export function endedAt(time: string, now: number): string {
  const at = new Date(time),
    date = day.format(at);
  return (date === day.format(now) ? "" : `${date}, `) + clock.format(at);
}
