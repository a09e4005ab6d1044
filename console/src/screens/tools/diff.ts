// The difference of two texts by lines: the longest common subsequence.

export interface Line {
  sign: " " | "+" | "-";
  text: string;
}

/** More lines than these would make a page slow: everything is then removed and added. */
const most = 2000;

export function diff(before: string, after: string): Line[] {
  const a = before.split("\n"),
    b = after.split("\n");
  const out: Line[] = [];
  let from = 0,
    endA = a.length,
    endB = b.length;
  while (from < endA && from < endB && a[from] === b[from]) from++;
  while (endA > from && endB > from && a[endA - 1] === b[endB - 1]) {
    endA--;
    endB--;
  }
  const same = (lines: string[]) => lines.forEach((text) => out.push({ sign: " ", text }));
  same(a.slice(0, from));
  const x = a.slice(from, endA),
    y = b.slice(from, endB);
  if (x.length > most || y.length > most) {
    x.forEach((text) => out.push({ sign: "-", text }));
    y.forEach((text) => out.push({ sign: "+", text }));
  } else {
    out.push(...middle(x, y));
  }
  same(a.slice(endA));
  return out;
}

function middle(x: string[], y: string[]): Line[] {
  const wide = y.length + 1;
  const common = new Uint16Array((x.length + 1) * wide); // of the lines from i and j on
  for (let i = x.length - 1; i >= 0; i--) {
    for (let j = y.length - 1; j >= 0; j--) {
      common[i * wide + j] =
        x[i] === y[j]
          ? common[(i + 1) * wide + j + 1]! + 1
          : Math.max(common[(i + 1) * wide + j]!, common[i * wide + j + 1]!);
    }
  }
  const out: Line[] = [];
  let i = 0,
    j = 0;
  while (i < x.length || j < y.length) {
    if (i < x.length && j < y.length && x[i] === y[j]) {
      out.push({ sign: " ", text: x[i]! });
      i++;
      j++;
    } else if (i < x.length && (j >= y.length || common[(i + 1) * wide + j]! >= common[i * wide + j + 1]!))
      out.push({ sign: "-", text: x[i++]! });
    else out.push({ sign: "+", text: y[j++]! });
  }
  return out;
}

/** pretty is a JSON text with a line for each value and sorted names, so that a changed order is no difference. */
export function pretty(text: string | undefined): string {
  try {
    return JSON.stringify(sorted(JSON.parse(text || "{}")), null, 2);
  } catch {
    return text ?? "";
  }
}

function sorted(v: unknown): unknown {
  if (Array.isArray(v)) return v.map(sorted);
  if (v === null || typeof v !== "object") return v;
  return Object.fromEntries(
    Object.entries(v)
      .sort(([a], [b]) => (a < b ? -1 : 1))
      .map(([k, w]) => [k, sorted(w)]),
  );
}
