import assert from "node:assert/strict";
import { test } from "node:test";
import type { Approval } from "../../api/types";
import { alikeKey, compare, rowsOf } from "./alike";
import { parseExact } from "./json";

const approval = (id: string, args: string, more: Partial<Approval> = {}): Approval => ({
  id,
  tenant: "acme",
  capability: "mail",
  tool: "send",
  user: "ann",
  agent: "bot",
  state: "pending",
  arguments_json: args,
  ...more,
});

test("approvals are alike if the tool, the people and the names and kinds of arguments are the same", () => {
  const key = (args: string, more: Partial<Approval> = {}) => alikeKey(approval("a", args, more));
  const one = key('{"to":"bob","n":1}');
  assert.equal(key('{"n":27,"to":"eve"}'), one);
  for (const other of [
    '{"to":"bob"}',
    '{"to":1,"n":1}',
    '{"to":"bob","n":1,"n":2}',
    '{"to":[],"n":1}',
    '{"to":null,"n":1}',
  ])
    assert.notEqual(key(other), one, other);
  for (const more of [
    { user: "tom" },
    { agent: "b" },
    { tool: "s" },
    { capability: "c" },
    { tenant: "t" },
    { tool_change: "c" },
  ])
    assert.notEqual(key('{"to":"bob","n":1}', more), one, JSON.stringify(more));
  assert.equal(key("cut off {"), "");
});

test("a group stands in the place of its first one, and hides nothing when it is open", () => {
  const items = [1, 2, 3, 4].map((n) => approval(String(n), `{"n":${n}}`));
  items.splice(1, 0, approval("other", "{}"), approval("over", '{"n":1}', { state: "denied" }));
  const waits = (a: Approval) => a.state === "pending";
  const names = (open: Set<string>) =>
    rowsOf(items, waits, open).map((r) => ("group" in r ? r.group.map((a) => a.id).join("+") : r.of.id));
  assert.deepEqual(names(new Set()), ["1+2+3+4", "other", "over"]);
  assert.deepEqual(names(new Set([alikeKey(items[0]!)])), ["1+2+3+4", "1", "2", "3", "4", "other", "over"]);
  assert.deepEqual(
    rowsOf(items.slice(0, 4), waits, new Set()).map((r) => r.key),
    ["acme/1", "acme/other", "acme/over", "acme/2"],
  );
});

test("what differs is all that is not in each of them, and what is masked", () => {
  const of = (...texts: string[]) => {
    const { same, differ } = compare(texts.map((t) => parseExact(t)!));
    return [same.map((l) => l.path.join(".")), differ.map((d) => d.path.join("."))];
  };
  assert.deepEqual(of('{"a":1,"b":{"c":"x","d":2}}', '{"a":1,"b":{"c":"y","d":2}}'), [["a", "b.d"], ["b.c"]]);
  assert.deepEqual(of('{"a":[1,2]}', '{"a":[1]}', '{"a":[1]}'), [["a.1"], ["a.2"]]);
  assert.deepEqual(of('{"a":1,"a":2}', '{"a":1,"a":3}'), [["a"], ["a"]]);
  assert.deepEqual(of('{"k":[masked: by its name]}', '{"k":[masked: by its name]}'), [[], ["k"]]);
  assert.deepEqual(of('{"a":{}}', '{"a":{}}'), [["a"], []]);
});
