import assert from "node:assert/strict";
import { test } from "node:test";
import { draftOf, limitsOf, wrong } from "./limits";

test("limits are the same after they were a form", () => {
  const limits = {
    calls_per_second: 50,
    per_day: 1000,
    bytes_per_second: "1048576",
    shadow: true,
    each: [{ per: "user" }],
  };
  const again = limitsOf(draftOf(limits), true, limits);
  assert.deepEqual(draftOf(again), draftOf(limits));
  assert.deepEqual([again.each, again.shadow, again.per_month], [limits.each, true, 0]);
});

test("a form says what is wrong", () => {
  const with_ = (of: object) => wrong({ ...draftOf(undefined), ...of });
  assert.equal(wrong(draftOf(undefined)), undefined);
  assert.equal(with_({ per_day: "10 000" }), undefined);
  assert.match(with_({ per_day: "-1" })!, /whole number/);
  assert.match(with_({ concurrent: "many" })!, /whole number/);
  assert.match(with_({ concurrent: "2147483648" })!, /too large/);
  assert.match(with_({ per_day: "100", per_month: "50" })!, /not less/);
  assert.match(with_({ burst: "5" })!, /needs calls a second/);
});
