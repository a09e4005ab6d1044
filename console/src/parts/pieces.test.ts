import assert from "node:assert/strict";
import { test } from "node:test";
import { keysOf, piecesOf, rangeOf, topsOf } from "./pieces";

const keys = ["a", "b", "c", "d", "e"];

test("rows that were not measured are as high as the average", () => {
  const heights = new Map([
    ["a", 10],
    ["c", 30],
    ["gone", 1000],
  ]);
  assert.deepEqual([...topsOf(keys, heights, 99)], [0, 10, 30, 60, 80, 100]);
  assert.deepEqual([...topsOf(keys, new Map(), 99)], [0, 99, 198, 297, 396, 495]);
  assert.deepEqual([...topsOf([], heights, 99)], [0]);
});

test("a range has all rows that are in sight", () => {
  const tops = Float64Array.of(0, 10, 30, 60, 80, 100);
  assert.deepEqual(rangeOf(tops, 0, 1), [0, 1]);
  assert.deepEqual(rangeOf(tops, 10, 30), [1, 3]);
  assert.deepEqual(rangeOf(tops, 29, 61), [1, 4]);
  assert.deepEqual(rangeOf(tops, -500, 5000), [0, 5]);
  assert.deepEqual(rangeOf(tops, 5000, 6000), [5, 5]);
  assert.deepEqual(rangeOf(Float64Array.of(0), 0, 100), [0, 0]);
});

test("rows and gaps are as high as the list", () => {
  const tops = Float64Array.of(0, 10, 30, 60, 80, 100);
  assert.deepEqual(piecesOf(tops, [1, 3], []), [{ gap: 10, before: 1 }, { at: 1 }, { at: 2 }, { gap: 40, before: 5 }]);
  assert.deepEqual(piecesOf(tops, [0, 1], [4, 0, 9, -1]), [{ at: 0 }, { gap: 70, before: 4 }, { at: 4 }]);
  assert.deepEqual(piecesOf(Float64Array.of(0), [0, 0], [0]), []);
});

test("items with the same key get different ones", () => {
  assert.deepEqual(
    keysOf(["x", "y", "x", "x"], (s) => s),
    ["x", "y", "x 1", "x 2"],
  );
});
