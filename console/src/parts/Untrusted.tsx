// Text that callers, tools and issuers choose. It is shown as text alone, never as HTML or as the address of a link.
// Characters that cannot be seen, or that change the order or the look of others, are shown by their numbers.

import type { ComponentChildren, JSX } from "preact";
import { useState } from "preact/hooks";

const names: Record<number, string> = {
  0x00: "null",
  0x08: "backspace",
  0x09: "tab",
  0x0a: "line feed",
  0x0d: "carriage return",
  0x1b: "escape",
  0x7f: "delete",
  0x85: "next line",
  0xa0: "no-break space",
  0xad: "soft hyphen",
  0x61c: "Arabic letter mark",
  0x115f: "Hangul filler",
  0x1160: "Hangul filler",
  0x180e: "Mongolian vowel separator",
  0x200b: "zero width space",
  0x200c: "zero width non-joiner",
  0x200d: "zero width joiner",
  0x200e: "left-to-right mark",
  0x200f: "right-to-left mark",
  0x2028: "line separator",
  0x2029: "paragraph separator",
  0x202a: "left-to-right embedding",
  0x202b: "right-to-left embedding",
  0x202c: "pop directional formatting",
  0x202d: "left-to-right override",
  0x202e: "right-to-left override",
  0x2060: "word joiner",
  0x2066: "left-to-right isolate",
  0x2067: "right-to-left isolate",
  0x2068: "first strong isolate",
  0x2069: "pop directional isolate",
  0x3164: "Hangul filler",
  0xfeff: "byte order mark",
  0xffa0: "Hangul filler",
};

// Control, format, unassigned, private, lone surrogates, all spaces but the usual, fillers, and long runs of marks.
const strange =
  /[\p{Cc}\p{Cf}\p{Cn}\p{Co}\p{Cs}\p{Zl}\p{Zp}\u115f\u1160\u3164\uffa0\u2800]|(?! )\p{Zs}|(?<=\p{M}{2})\p{M}+/gu;

const hex = (c: number) => "U+" + c.toString(16).toUpperCase().padStart(4, "0");

/** inWords is the text with strange characters as U+202E, for titles and labels, which cannot have elements. */
export function inWords(text: string, most = 200): string {
  const cut = text.length > most ? text.slice(0, most) + "…" : text;
  return cut.replace(strange, (c) => `[${hex(c.codePointAt(0)!)}]`);
}

const longestName = 200;

/** breakable lets a line end behind the signs in names, rather than within a word: backend.drained, ann@example.com. */
function breakable(name: string): ComponentChildren[] {
  return name.split(/(?<=[.@_/:=-])(?=[^\s.@_/:=-])/).flatMap((word, i) => (i > 0 ? [<wbr />, word] : [word]));
}

function visible(text: string, lines: boolean): ComponentChildren[] {
  const out: ComponentChildren[] = [];
  let at = 0;
  for (const found of text.matchAll(strange)) {
    const c = found[0].codePointAt(0)!;
    if (lines && c === 0x0a) continue;
    if (found.index > at) out.push(text.slice(at, found.index));
    at = found.index + found[0].length;
    const many = [...found[0]].length;
    const what = many > 1 ? `${many} more marks` : hex(c);
    const title = many > 1 ? "combining marks that are not shown" : `${hex(c)} ${names[c] ?? "cannot be seen"}`;
    out.push(
      <span class="strange" title={title}>
        {what}
      </span>,
    );
  }
  if (at < text.length) out.push(text.slice(at));
  return out.flatMap((part) =>
    typeof part === "string" && !lines && part.length <= longestName ? breakable(part) : [part],
  );
}

interface Props {
  text: string | undefined;
  /** Shown if there is no text. */
  none?: string;
  /** The characters that are shown before the rest is folded. */
  most?: number;
  /** Keeps line breaks. */
  lines?: boolean;
  mono?: boolean;
}

/** Untrusted shows text from outside the gateway. */
export function Untrusted({ text, none = "–", most = 300, lines = false, mono = false }: Props): JSX.Element {
  const [open, setOpen] = useState(false);
  if (!text) return <span class="dim">{none}</span>;
  const long = text.length > most * 1.2;
  let shown = text;
  if (long && !open) {
    shown = text.slice(0, most);
    if (/[\ud800-\udbff]$/.test(shown)) shown = shown.slice(0, -1);
  }
  return (
    <>
      <bdi class={"untrusted" + (mono ? " mono" : "") + (lines ? " lines" : "")}>
        {visible(shown, lines)}
        {long && !open && "…"}
      </bdi>
      {long && (
        <button type="button" class="fold" aria-expanded={open} onClick={() => setOpen(!open)}>
          {open ? "Show less" : `Show all ${text.length.toLocaleString("en")} characters`}
        </button>
      )}
    </>
  );
}
