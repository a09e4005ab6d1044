import assert from "node:assert/strict";
import { test } from "node:test";
import { parser, type ServerEvent } from "./parser";

/** parse returns the events of a stream that arrives in pieces, and the last id that was set. */
function parse(...pieces: string[]): { events: ServerEvent[]; id: string | undefined } {
  const events: ServerEvent[] = [];
  let id: string | undefined;
  const take = parser(
    (e) => events.push(e),
    (to) => {
      id = to;
    },
  );
  pieces.forEach(take);
  return { events, id };
}

const stream = "id: 7\nevent: created\ndata: one\ndata: two\n\n: still here\n\ndata:three\n\n";
const events = [
  { id: "7", event: "created", data: "one\ntwo" },
  { id: "7", event: "message", data: "three" },
];

test("an event has its id, its kind and its lines", () => {
  assert.deepEqual(parse(stream), { events, id: "7" });
});

test("lines end with LF, CR or both", () => {
  for (const end of ["\r\n", "\r"]) {
    // A CR at the very end of a piece may be half of a CRLF: the next piece decides.
    assert.deepEqual(parse(stream.replaceAll("\n", end), ": next\n").events, events);
  }
});

test("a stream may be cut anywhere", () => {
  const text = stream.replaceAll("\n", "\r\n");
  for (let at = 0; at <= text.length; at++) {
    assert.deepEqual(parse(text.slice(0, at), text.slice(at)).events, events, `cut at ${at}`);
  }
});

test("an event without data is none, and keeps its id", () => {
  assert.deepEqual(parse("id: 3\nevent: alone\n\n"), { events: [], id: "3" });
});

test("an unfinished event does not count", () => {
  assert.deepEqual(parse("data: one\n").events, []);
});

test("a field without a colon is empty, and only one blank belongs to the colon", () => {
  assert.deepEqual(parse("data\n\n", "data:  two\n\n").events, [
    { id: "", event: "message", data: "" },
    { id: "", event: "message", data: " two" },
  ]);
});

test("an empty id ends the earlier one", () => {
  assert.deepEqual(
    parse("id: 1\ndata: a\n\nid\ndata: b\n\n").events.map((e) => e.id),
    ["1", ""],
  );
});
