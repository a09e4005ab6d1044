// The arguments of a call as a table: nested values are indented below the name of what has them.

import type { ComponentChildren } from "preact";
import { useMemo, useState } from "preact/hooks";
import type { Approval } from "../../api/types";
import { Icon } from "../../parts/Icon";
import { inWords, Untrusted } from "../../parts/Untrusted";
import { ArgumentTable } from "./ArgumentTable";
import { bracket, type Node, parseExact } from "./json";

interface Row {
  depth: number;
  name: string;
  value: ComponentChildren;
  key: string;
}

const shownRows = 14;
const excerpt = "This is an excerpt: long texts are shortened.";
const indents = 5;

export function Arguments({ of, all = false }: { of: Approval; all?: boolean }) {
  const [open, setOpen] = useState(false);
  const text = of.arguments_json || of.arguments || "";
  const rows = useMemo(() => {
    const node = parseExact(text);
    return node?.kind === "object" ? rowsOf(node, all ? Infinity : 400) : undefined;
  }, [text, all]);
  if (!text)
    return <p class="note wait">The arguments cannot be shown: the key that encrypts them is no longer configured.</p>;
  if (!rows) {
    return (
      <>
        {of.arguments_excerpt && <p class="note wait">{excerpt}</p>}
        <div class="args-raw">
          <Untrusted text={text} lines mono most={all ? Infinity : 600} />
        </div>
      </>
    );
  }
  if (rows.length === 0) return <p class="dim">It takes no arguments.</p>;
  const shown = all || open ? rows : rows.slice(0, shownRows);
  return (
    <>
      {of.arguments_excerpt && <p class="note wait">{excerpt}</p>}
      <ArgumentTable
        label="Arguments"
        of={shown.map((r) => ({
          key: r.key,
          name: <Untrusted text={plain(r.name)} mono most={80} none="(empty name)" />,
          value: r.value,
          depth: Math.min(r.depth, indents),
        }))}
      />
      {shown.length < rows.length && (
        <button type="button" class="fold" onClick={() => setOpen(true)}>
          Show all {rows.length} values
        </button>
      )}
    </>
  );
}

/** rowsOf has a row for each value of an object, however deep: a person approves what is shown. Texts of more than most characters are folded. */
export function rowsOf(node: Node, most: number): Row[] {
  const rows: Row[] = [];
  const add = (name: string, n: Node, depth: number, key: string) => {
    rows.push({ depth, name, value: shownValue(n, most), key });
    if (n.kind === "object") n.entries.forEach(([k, v], i) => add(k, v, depth + 1, `${key}.${i}`));
    if (n.kind === "list" && !flat(n)) n.items.forEach((v, i) => add(String(i + 1), v, depth + 1, `${key}.${i}`));
  };
  if (node.kind === "object") node.entries.forEach(([k, v], i) => add(k, v, 0, String(i)));
  return rows;
}

/** A list of few short values stands in one cell. */
const flat = (n: Node) =>
  n.kind === "list" &&
  n.items.length > 0 &&
  n.items.length <= 8 &&
  n.items.every((i) => i.kind === "word" || (i.kind === "text" && i.text.length <= 60 && !masked(i.text)));

/** shownValue shows a value. Texts of more than most characters are folded. */
export function shownValue(n: Node, most: number): ComponentChildren {
  switch (n.kind) {
    case "text":
      return n.text === "" ? <span class="dim">empty text</span> : <Text text={n.text} most={most} />;
    case "mask":
      return <Masked why={n.why} />;
    case "word":
      return <span class="mono word">{n.text}</span>;
    case "object":
      return (
        <span class="dim small">
          {n.entries.length ? `${n.entries.length} ${n.entries.length === 1 ? "field" : "fields"}` : "an empty object"}
        </span>
      );
    case "list":
      if (!flat(n))
        return (
          <span class="dim small">
            {n.items.length ? `${n.items.length} ${n.items.length === 1 ? "item" : "items"}` : "an empty list"}
          </span>
        );
      return (
        <ul class="flat">
          {n.items.map((i, at) => (
            <li key={at}>{shownValue(i, most)}</li>
          ))}
        </ul>
      );
  }
}

const mask = /\[masked: ([^\]]{1,200})\]/g;
const masked = (text: string) => text.search(mask) >= 0;
export const plain = (text: string) => text.replaceAll(bracket, "[");

/** Text is a text with its masked parts. */
function Text({ text, most }: { text: string; most: number }) {
  const parts: ComponentChildren[] = [];
  let at = 0;
  for (const found of text.matchAll(mask)) {
    if (found.index > at) parts.push(<Untrusted text={plain(text.slice(at, found.index))} lines most={most} />);
    parts.push(<Masked why={found[1]!} />);
    at = found.index + found[0].length;
  }
  if (at < text.length) parts.push(<Untrusted text={plain(text.slice(at))} lines most={most} />);
  return <>{parts}</>;
}

const Masked = ({ why }: { why: string }) => (
  <span class="masked" title="The gateway hides the value. The tool gets it as it is.">
    <Icon name="lock" />
    <b>Masked</b>
    <span>{inWords(why)}</span>
  </span>
);
