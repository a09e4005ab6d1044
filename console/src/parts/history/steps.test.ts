import assert from "node:assert/strict";
import { test } from "node:test";
import { duration, nice, percent, place, runs } from "./steps";

test("durations have the unit that fits", () => {
  assert.deepEqual([0, 0.02, 0.5, 1.25, 42.4, 1500, 90_000].map(duration), [
    "–",
    "<0.5 ms",
    "<0.5 ms",
    "1.3 ms",
    "42 ms",
    "1.5 s",
    "1.5 min",
  ]);
});

test("only all of it is 100%", () => {
  assert.deepEqual(
    [percent(0, 5), percent(1, 100_000), percent(1, 40), percent(99_999, 100_000), percent(5, 5), percent(1, 0)],
    ["0%", "<0.1%", "2.5%", ">99.9%", "100%", "0%"],
  );
});

test("a scale ends at a round number", () => {
  assert.deepEqual([nice(0, 2), nice(7, 2), nice(130, 2), nice(4100, 2)], [2, 8, 160, 5000]);
});

test("events outside of the steps have no place", () => {
  const steps = [{ time: "2026-01-01T00:00:00Z" }, { time: "2026-01-01T00:01:00Z" }];
  assert.equal(place({ time: "2026-01-01T00:01:00Z" }, steps), 0.5);
  assert.equal(place({ time: "2025-12-31T00:01:00Z" }, steps), undefined);
});

test("a line breaks where there is no value", () => {
  assert.deepEqual(runs([undefined, 1, 2, undefined, 3]), [
    [
      [1, 1],
      [2, 2],
    ],
    [[4, 3]],
  ]);
});
