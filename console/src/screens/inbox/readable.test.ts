import assert from "node:assert/strict";
import { test } from "node:test";
import type { Approval } from "../../api/types";
import { approvable, withArguments } from "./readable";

const approval = (more: Partial<Approval>) => ({ id: "a", tenant: "acme", state: "pending", ...more }) as Approval;
const whole = approval({ arguments_json: '{"to":"ann"}' });

test("arguments that are shown in full can be approved", () => {
  assert.equal(approvable(whole), true);
  assert.equal(approvable(withArguments(approval({ arguments_json: '{"to":', arguments_excerpt: true }), whole)), true);
  assert.equal(approvable({ ...whole, may_not_approve_why: "they are too long" }), false);
});

test("arguments that were not shown are not approved, although the approval has them meanwhile", () => {
  for (const opened of [
    approval({ may_not_approve_why: "the key is away" }),
    approval({ may_not_approve_why: "the key is away", arguments_json: '{"to":', arguments_excerpt: true }),
  ])
    assert.equal(approvable(withArguments(whole, opened)), false);
});

test("a read without arguments is no reason to approve", () => {
  const read = approval({});
  assert.equal(approvable(withArguments(approval({ arguments_json: '{"to":', arguments_excerpt: true }), read)), false);
});
