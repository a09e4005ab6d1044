// Times, in words that stay right while the page is open.
import { useClock } from "./now";

const units: [number, string][] = [
  [86_400, "d"],
  [3600, "h"],
  [60, "min"],
  [1, "s"],
];

/** span is a duration in ms, in one or two units: 1 h 5 min. */
export function span(ms: number): string {
  let s = Math.max(0, Math.floor(ms / 1000));
  const parts: string[] = [];
  for (const [size, unit] of units) {
    if (s < size && !(size === 1 && parts.length === 0)) continue;
    parts.push(`${Math.floor(s / size)} ${unit}`);
    s %= size;
    if (parts.length === 2 || (size === 60 && parts.length === 1 && s === 0)) break;
  }
  return parts.join(" ");
}

const exact = new Intl.DateTimeFormat("en-GB", { dateStyle: "medium", timeStyle: "medium" });
export const exactTime = (iso: string) => exact.format(new Date(iso));

/** Ago is the time since something, with the exact time as its title. */
export function Ago({ time, suffix = "ago" }: { time: string | undefined; suffix?: string }) {
  const at = Date.parse(time ?? "");
  const text = useClock((t) =>
    t - at < 5000 ? (suffix ? "just now" : "now") : `${span(round(t - at))} ${suffix}`.trim(),
  );
  if (!time || Number.isNaN(at)) return <span class="dim">–</span>;
  return (
    <time dateTime={time} title={exactTime(time)}>
      {text}
    </time>
  );
}

// A second unit says nothing after an hour.
const round = (ms: number) =>
  ms < 60_000
    ? Math.floor(ms / 5000) * 5000
    : ms < 3_600_000
      ? Math.floor(ms / 60_000) * 60_000
      : Math.floor(ms / 3_600_000) * 3_600_000;

/** Exact is a point in time. */
export function Exact({ time }: { time: string | undefined }) {
  return time && !Number.isNaN(Date.parse(time)) ? (
    <time dateTime={time}>{exactTime(time)}</time>
  ) : (
    <span class="dim">–</span>
  );
}
