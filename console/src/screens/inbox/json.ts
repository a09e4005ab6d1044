// JSON as it was written: JSON.parse rounds numbers, and of a name that is there twice it shows the last value only.
// Whoever approves arguments must see those that the tool gets.

export type Node =
  | { kind: "text"; text: string }
  | { kind: "word"; text: string } // a number, true, false or null, as written
  | { kind: "mask"; why: string } // what the gateway hides, where a value would be
  | { kind: "object"; entries: [string, Node][] }
  | { kind: "list"; items: Node[] };

const deepest = 200;
const masked = /^\[masked: ([^\]]{1,200})\]/;

/** The gateway writes the bracket of a text that only looks like a mask as an escape. It stays apart as this. */
export const bracket = "\ufdd0";
const escaped = /(\\+)u005[bB]/g;

/** parseExact returns the value of a JSON text, or undefined if it is not valid. */
export function parseExact(text: string): Node | undefined {
  let at = 0;
  const space = () => {
    while (at < text.length && " \t\n\r".includes(text[at]!)) at++;
  };
  const take = (c: string) => {
    space();
    if (text[at] !== c) return false;
    at++;
    return true;
  };
  const word = (pattern: RegExp): string => {
    space();
    pattern.lastIndex = at;
    const found = pattern.exec(text);
    if (!found) throw new SyntaxError();
    at = pattern.lastIndex;
    return found[0];
  };
  const must = (c: string) => {
    if (!take(c)) throw new SyntaxError();
  };
  const string = () =>
    JSON.parse(
      word(/"(?:[^"\\]|\\.)*"/sy).replace(escaped, (all, slashes: string) =>
        slashes.length % 2 ? slashes.slice(1) + bracket : all,
      ),
    ) as string;
  const value = (depth: number): Node => {
    if (depth > deepest) throw new SyntaxError();
    space();
    if (text[at] === '"') return { kind: "text", text: string() };
    if (take("{")) {
      const entries: [string, Node][] = [];
      if (take("}")) return { kind: "object", entries };
      do {
        space();
        const name = string();
        must(":");
        entries.push([name, value(depth + 1)]);
      } while (take(","));
      must("}");
      return { kind: "object", entries };
    }
    const hidden = masked.exec(text.slice(at, at + 256));
    if (hidden) {
      at += hidden[0].length;
      return { kind: "mask", why: hidden[1]! };
    }
    if (take("[")) {
      const items: Node[] = [];
      if (take("]")) return { kind: "list", items };
      do items.push(value(depth + 1));
      while (take(","));
      must("]");
      return { kind: "list", items };
    }
    return { kind: "word", text: word(/true|false|null|-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?/y) };
  };
  try {
    const all = value(0);
    space();
    return at === text.length ? all : undefined;
  } catch {
    return undefined;
  }
}
