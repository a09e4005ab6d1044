import assert from "node:assert/strict";
import { test } from "node:test";
import { secondsOf, sortedBy, timeOf } from "./sorted";

const names = (rows: { name: string }[]) => rows.map((r) => r.name).join(" ");

test("rows have the order of their values, those without one come last, and equal ones keep their places", () => {
  const rows = [
    { name: "b10", took: "0.5s" },
    { name: "", took: "12s" },
    { name: "b9", took: "0.25s" },
    { name: "A", took: "" },
  ];
  const by = (r: { name: string }) => r.name;
  assert.equal(names(sortedBy(rows, by, false)), "A b9 b10 ");
  assert.equal(names(sortedBy(rows, by, true)), "b10 b9 A ");
  assert.equal(names(sortedBy(rows, (r) => secondsOf(r.took), false)), "b9 b10  A");
  assert.equal(names(sortedBy(rows, (r) => secondsOf(r.took), true)), " b10 b9 A");
  assert.equal(names(sortedBy(rows, () => 1, true)), names(rows));
  assert.equal(names(rows), "b10  b9 A");
});

test("times are compared as times: a fraction of a second is later than none", () => {
  const rows = ["2026-01-02T03:04:32.003Z", "", "2026-01-02T03:04:32Z"].map((name) => ({ name }));
  assert.equal(names(sortedBy(rows, (r) => timeOf(r.name), false)), "2026-01-02T03:04:32Z 2026-01-02T03:04:32.003Z ");
});
