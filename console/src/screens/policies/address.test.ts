import assert from "node:assert/strict";
import { test } from "node:test";
import { explainAddress, namesOf } from "./address";

test("names of all kinds survive the way through an address", () => {
  const names = { tenant: "acme/&=", user: "ann#1?", agent: "", capability: "weather", tool: "a+b %" };
  const part = explainAddress(names).replace("#/policies/explain/", "");
  assert.ok(!/[/?#&=+ ]/.test(part));
  assert.deepEqual(namesOf(decodeURIComponent(part)), names);
});
