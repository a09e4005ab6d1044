import assert from "node:assert/strict";
import { test } from "node:test";
import { rowsOf } from "./Arguments";
import { compare } from "./alike";
import { type Node, parseExact } from "./json";

/** nested has a value below so many fields. */
const nested = (deep: number, value: string): Node =>
  parseExact('{"f":'.repeat(deep) + JSON.stringify(value) + "}".repeat(deep))!;

test("values are shown however deep they are", () => {
  for (const deep of [30, 199]) {
    const rows = rowsOf(nested(deep, "delete all"), Infinity);
    assert.equal(rows.length, deep);
    assert.match(JSON.stringify(rows.at(-1)!.value), /delete all/);
  }
  const lists = parseExact(`{"l":${"[".repeat(30)}{"f":"delete all"}${"]".repeat(30)}}`)!;
  assert.match(JSON.stringify(rowsOf(lists, Infinity).at(-1)!.value), /delete all/);
});

test("values that are deep are compared", () => {
  const { same, differ, each } = compare([nested(30, "keep"), nested(30, "delete all")]);
  assert.deepEqual([same.length, differ.length, differ[0]!.path.length], [0, 1, 30]);
  assert.deepEqual(each[1]!.get(differ[0]!.key)!.value, { kind: "text", text: "delete all" });
});
