import assert from "node:assert/strict";
import { test } from "node:test";
import { endedAt } from "./ended";

test("calls of other days have the day", () => {
  const now = new Date(2026, 10, 30, 9, 0).getTime(),
    at = (day: number) => endedAt(new Date(2026, 10, day, 8, 7, 43).toISOString(), now);
  assert.equal(at(30), "08:07:43");
  assert.equal(at(28), "28 Nov, 08:07:43");
});
