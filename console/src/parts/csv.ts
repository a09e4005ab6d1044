// Lists as files for other programs.

/** plain is a value of a cell: texts as they are, lists of texts with commas between them, all else as JSON. */
function plain(value: unknown): string {
  if (value === undefined || value === null) return "";
  if (typeof value === "string") return defused(value);
  if (Array.isArray(value) && value.every((v) => typeof v === "string")) return defused(value.join(", "));
  return typeof value === "object" ? JSON.stringify(value) : String(value);
}

/** defused is a text that spreadsheets do not take for a formula. */
const defused = (text: string) => (/^[=+\-@\t\r\n]/.test(text) ? "'" + text : text);

const quoted = (text: string) => (/[",\r\n]|^\s|\s$/.test(text) ? `"${text.replaceAll('"', '""')}"` : text);

/** csvOf returns rows as CSV (RFC 4180). The columns are the fields of all rows, in the order in which they come. */
export function csvOf(rows: readonly object[]): string {
  const columns = [...new Set(rows.flatMap((row) => Object.keys(row)))];
  const line = (cells: string[]) => cells.map(quoted).join(",") + "\r\n";
  return (
    line(columns.map(defused)) +
    rows.map((row) => line(columns.map((c) => plain((row as Record<string, unknown>)[c])))).join("")
  );
}
