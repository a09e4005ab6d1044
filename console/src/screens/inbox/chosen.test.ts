import assert from "node:assert/strict";
import { test } from "node:test";
import type { Approval } from "../../api/types";
import type { Row } from "./alike";
import { chosenBy } from "./chosen";

const approval = (id: string, more: Partial<Approval> = {}) =>
  ({ id, tenant: "acme", state: "pending", ...more }) as unknown as Approval;

const can = (a: Approval) => a.state === "pending" && a.level !== "elsewhere" && !a.may_not_answer_why;

const rows: Row[] = [
  { key: "acme/a", of: approval("a") },
  { key: "alike", group: [approval("b"), approval("c"), approval("d", { may_not_answer_why: "it is yours" })] },
  { key: "acme/e", of: approval("e", { state: "denied" }) },
  { key: "acme/f", of: approval("f", { level: "elsewhere" }) },
  { key: "acme/g", of: approval("g") },
];

test("a click chooses what a person may answer, and with Shift all since the last one", () => {
  const one = chosenBy(new Set(), rows, 1, 1, can);
  assert.deepEqual([...one], ["acme/b", "acme/c"]);
  const range = chosenBy(one, rows, 4, 0, can);
  assert.deepEqual([...range].sort(), ["acme/a", "acme/b", "acme/c", "acme/g"]);
  assert.deepEqual([...chosenBy(range, rows, 1, 1, can)].sort(), ["acme/a", "acme/g"]);
  assert.deepEqual([...chosenBy(range, rows, 0, 4, can)], []);
  assert.deepEqual([...chosenBy(range, rows, 9, 0, can)], [...range]);
});
