// The limits of a tenant as texts of a form, and back.
import type { Tenant } from "../../api/types";

export type Limits = NonNullable<Tenant["limits"]>;

/** The fields of a form: name, label, hint. Those of 64 bits are texts in JSON. */
export const fields = [
  ["calls_per_second", "Calls a second", ""],
  ["burst", "Calls at once after a pause", "Empty: as many as a second."],
  ["concurrent", "Concurrent calls", ""],
  ["per_day", "Calls a day", "From midnight to midnight UTC."],
  ["per_month", "Calls a month", "Not less than those of a day."],
  ["bytes_per_second", "Bytes a second", "Of all calls, in both directions."],
  ["artifact_size", "Bytes of a file", ""],
  ["messages", "Messages of a stream", ""],
] as const;

type Name = (typeof fields)[number][0];
export type Draft = Record<Name, string>;

const wide: Name[] = ["bytes_per_second", "artifact_size", "messages"];

/** draftOf is the form of some limits; 0 is empty. */
export const draftOf = (l: Limits | undefined): Draft =>
  Object.fromEntries(fields.map(([field]) => [field, Number(l?.[field] ?? 0) ? String(l?.[field]) : ""])) as Draft;

/** numberOf is a number of a form; undefined: it is none. */
const numberOf = (text: string) => {
  const digits = text.trim().replaceAll(/[\s_,]/g, "");
  return /^\d*$/.test(digits) ? Number(digits) : undefined;
};

/** wrong is what is wrong with a form; undefined: nothing. */
export function wrong(d: Draft): string | undefined {
  for (const [field, label] of fields) {
    const n = numberOf(d[field]);
    if (n === undefined) return `${label}: write a whole number, or nothing for no limit.`;
    if (n > (wide.includes(field) ? Number.MAX_SAFE_INTEGER : 2 ** 31 - 1)) return `${label}: that is too large.`;
  }
  const day = numberOf(d.per_day) ?? 0,
    month = numberOf(d.per_month) ?? 0;
  if (month && month < day) return "Calls a month: not less than those of a day.";
  if (numberOf(d.burst) && !numberOf(d.calls_per_second))
    return "Calls at once after a pause: it needs calls a second.";
  return undefined;
}

/** limitsOf is a form as limits. Those for some of the calls stay as they were. */
export function limitsOf(d: Draft, shadow: boolean, before: Limits | undefined): Limits {
  const limits: Record<string, unknown> = { each: before?.each ?? [], shadow };
  for (const [field] of fields) {
    const n = numberOf(d[field]) ?? 0;
    limits[field] = wide.includes(field) ? String(n) : n;
  }
  return limits as Limits;
}
