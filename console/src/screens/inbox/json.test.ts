import assert from "node:assert/strict";
import { test } from "node:test";
import { bracket, parseExact } from "./json";

const word = (text: string) => ({ kind: "word", text });
const text = (of: string) => ({ kind: "text", text: of });

test("numbers keep their digits", () => {
  for (const digits of ["0", "-0", "12345678901234567890", "1.10", "1E400", "0.1e-7"]) {
    assert.deepEqual(parseExact(digits), word(digits));
  }
});

test("a name that is there twice is shown twice", () => {
  assert.deepEqual(parseExact('{"to":"ann","to":"eve"}'), {
    kind: "object",
    entries: [
      ["to", text("ann")],
      ["to", text("eve")],
    ],
  });
});

test("names of prototypes are names", () => {
  assert.deepEqual(parseExact('{"__proto__":{"constructor":1}}'), {
    kind: "object",
    entries: [["__proto__", { kind: "object", entries: [["constructor", word("1")]] }]],
  });
});

test("lists, words, blanks and escapes", () => {
  assert.deepEqual(parseExact(' [ true , false,null, "\\u00e4\\n" ]\r\n'), {
    kind: "list",
    items: [word("true"), word("false"), word("null"), text("ä\n")],
  });
  assert.deepEqual(parseExact("[]"), { kind: "list", items: [] });
  assert.deepEqual(parseExact("{}"), { kind: "object", entries: [] });
});

test("a mask of the gateway is one, and a text that looks like one is not", () => {
  const mask = "[masked: 9 to 32 characters, by its name]";
  assert.deepEqual(parseExact(`{"key":${mask}}`), {
    kind: "object",
    entries: [["key", { kind: "mask", why: "9 to 32 characters, by its name" }]],
  });
  assert.deepEqual(parseExact(`"${mask}"`), text(mask));
  // The gateway escapes the bracket of such a text.
  assert.deepEqual(parseExact('"\\u005bmasked: it]"'), text(`${bracket}masked: it]`));
  assert.deepEqual(parseExact('"\\\\u005b"'), text("\\u005b"));
});

test("what is no JSON is nothing", () => {
  for (const bad of [
    "",
    "{",
    "[1,]",
    '{"a":1,}',
    "01",
    "+1",
    ".5",
    "1.",
    "nul",
    '"a',
    "'a'",
    "1 2",
    "{a:1}",
    '{"a"}',
    "\u00a01",
  ]) {
    assert.equal(parseExact(bad), undefined, bad);
  }
});

test("an abyss ends", () => {
  assert.equal(parseExact("[".repeat(100_000)), undefined);
  const nested = (deep: number) => parseExact("[".repeat(deep) + "]".repeat(deep));
  assert.notEqual(nested(201), undefined);
  assert.equal(nested(202), undefined);
});
