import assert from "node:assert/strict";
import { test } from "node:test";
import type { Approval } from "../../api/types";
import type { Row } from "./alike";
import { choiceLabel, chosenBy, partOf } from "./chosen";

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

test("a group of which some are chosen is chosen in part", () => {
  const of = (...keys: string[]) => partOf(new Set(keys), rows[1]!, can);
  assert.deepEqual([of(), of("acme/b"), of("acme/b", "acme/c")], [false, "some", true]);
});

test("boxes of cards of the same tool have different names", () => {
  const mail = (id: string, user: string) => approval(id, { tool: "send_mail", user, agent: "bot" });
  const labels = [
    { key: "1", of: mail("apr_1", "ann") },
    { key: "2", of: mail("apr_2", "ann") },
    { key: "3", group: [mail("apr_3", "ann"), mail("apr_4", "ann")] },
    { key: "4", group: [mail("apr_5", "bob"), mail("apr_6", "bob")] },
  ].map(choiceLabel);
  assert.equal(new Set(labels).size, 4);
  assert.equal(labels[0], "Send mail for ann, apr_1");
});
