// Approvals that are alike, and what differs between them.
import type { Approval } from "../../api/types";
import { type Node, parseExact } from "./json";
import { keyOf } from "./key";

/** The fewest approvals that make a group. */
export const fewest = 3;

/** shapeOf describes a value without its texts and numbers: the names of fields, and kinds. */
export function shapeOf(n: Node): string {
  switch (n.kind) {
    case "object":
      return `{${n.entries.map(([name, v]) => JSON.stringify(name) + shapeOf(v)).sort()}}`;
    case "list":
      return `[${[...new Set(n.items.map(shapeOf))].sort()}]`;
    case "word":
      return /^[tfn]/.test(n.text) ? "word" : "number";
    default:
      return n.kind;
  }
}

export const argumentsOf = (a: Approval) => parseExact(a.arguments_json || a.arguments || "");

const keys = new WeakMap<Approval, string>();

/** alikeKey is the same for approvals that are alike; "": their arguments cannot be compared. */
export function alikeKey(a: Approval): string {
  let key = keys.get(a);
  if (key === undefined) {
    const node = argumentsOf(a);
    key = node ? JSON.stringify([a.tenant, a.capability, a.tool, a.user, a.agent, a.tool_change, shapeOf(node)]) : "";
    keys.set(a, key);
  }
  return key;
}

/** Row is a card of the list, or a group of approvals that are alike. */
export type Row = { key: string; of: Approval } | { key: string; group: Approval[] };

/** rowsOf puts approvals that wait and are alike in the place of the first of them, in a group unless it is open. */
export function rowsOf(items: Approval[], waits: (a: Approval) => boolean, open: ReadonlySet<string>): Row[] {
  const groups = new Map<string, Approval[]>();
  for (const a of items) {
    const key = waits(a) ? alikeKey(a) : "";
    if (key) groups.set(key, [...(groups.get(key) ?? []), a]);
  }
  const rows: Row[] = [],
    done = new Set<string>();
  for (const a of items) {
    const key = waits(a) ? alikeKey(a) : "";
    const group = groups.get(key) ?? [];
    const card = { key: keyOf(a), of: a };
    if (group.length < fewest) rows.push(card);
    else if (!done.has(key)) {
      done.add(key);
      rows.push({ key, group });
      if (open.has(key)) rows.push(...group.map((g) => ({ key: keyOf(g), of: g })));
    }
  }
  return rows;
}

/** groupsOf puts approvals that are alike together, in the order of the first of them. */
export function groupsOf(items: Approval[]): Approval[][] {
  const groups = new Map<string, Approval[]>();
  for (const a of items) {
    const key = alikeKey(a) || keyOf(a);
    groups.set(key, [...(groups.get(key) ?? []), a]);
  }
  return [...groups.values()];
}

/** Leaf is a value without values of its own, or an empty one, with the names that lead to it. */
export interface Leaf {
  path: string[];
  value: Node;
}

/** leavesOf returns the leaves of a value by their paths. Of a name that is there twice, both are there. */
export function leavesOf(node: Node): Map<string, Leaf> {
  const leaves = new Map<string, Leaf>();
  const add = (path: string[], value: Node) => {
    if (value.kind === "object" && value.entries.length) for (const [name, v] of value.entries) add([...path, name], v);
    else if (value.kind === "list" && value.items.length)
      value.items.forEach((v, i) => add([...path, String(i + 1)], v));
    else {
      let key = JSON.stringify(path);
      while (leaves.has(key)) key += "'";
      leaves.set(key, { path, value });
    }
  };
  add([], node);
  return leaves;
}

export interface Compared {
  /** The leaves that all values have. */
  same: Leaf[];
  /** The paths of the others. */
  differ: { key: string; path: string[] }[];
  /** The leaves of each value. */
  each: Map<string, Leaf>[];
}

/** compare returns what several values have in common, and in what they differ. */
export function compare(nodes: Node[]): Compared {
  const each = nodes.map(leavesOf);
  const paths = new Map<string, string[]>();
  for (const leaves of each) for (const [key, leaf] of leaves) if (!paths.has(key)) paths.set(key, leaf.path);
  const same: Leaf[] = [],
    differ: { key: string; path: string[] }[] = [];
  for (const [key, path] of paths) {
    const values = new Set(each.map((leaves) => JSON.stringify(leaves.get(key)?.value)));
    // What is masked may differ, although the masks are the same.
    const leaf = each[0]!.get(key);
    if (values.size === 1 && leaf && (nodes.length === 1 || !hidden(leaf.value))) same.push(leaf);
    else differ.push({ key, path });
  }
  return { same, differ, each };
}

const hidden = (n: Node) => n.kind === "mask" || (n.kind === "text" && n.text.includes("[masked: "));
