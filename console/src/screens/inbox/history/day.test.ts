import assert from "node:assert/strict";
import { test } from "node:test";
import { dayOf } from "./day";

test("a day without a time has a name, too", () => {
  assert.equal(dayOf("2026-07-31T00:00:00Z"), "31 Jul");
  for (const none of [undefined, "", "soon"]) assert.equal(dayOf(none), "–");
});
