import assert from "node:assert/strict";
import { test } from "node:test";
import type { Approval, PastApproval } from "../../../api/types";
import { endsBy, withFresh } from "./fresh";

const past = (...ids: string[]) => ids.map((id) => ({ tenant: "acme", id }) as PastApproval);
const waits = { state: "pending" } as Approval,
  done = { state: "denied" } as Approval;

test("only what ends an approval changes the history", () => {
  assert.equal(endsBy(waits, "asked"), false);
  assert.equal(endsBy(waits, ""), false);
  assert.equal(endsBy({ state: "used" } as Approval, "used"), false);
  assert.equal(endsBy(done, "denied"), true);
  assert.equal(endsBy(done, ""), true);
});

test("the first page is put before those that were read", () => {
  assert.deepEqual(withFresh(past("c", "b", "a"), past("e", "d", "c")), past("e", "d", "c", "b", "a"));
  assert.deepEqual(withFresh([], past("a")), past("a"));
  assert.deepEqual(withFresh(past("a"), []), past("a"));
});

test("a first page that is all new leaves a gap", () => {
  assert.equal(withFresh(past("b", "a"), past("z", "y")), undefined);
});
