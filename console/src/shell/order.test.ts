import assert from "node:assert/strict";
import { test } from "node:test";
import { inOrder } from "./order";

test("exact names come before other names, and calls come last", () => {
  const found = [
    { kind: "Page", text: "Mail" },
    { kind: "Call", text: "mail · send" },
    { kind: "User", text: "mailer" },
    { kind: "Fleet", text: "mail" },
    { kind: "Trace", text: "4bf9" },
    { kind: "Key", text: "k_1", also: "MAIL" },
    { kind: "Tenant", text: "acme-mail" },
  ];
  assert.deepEqual(
    inOrder(found, " mail ").map((f) => f.kind),
    ["Page", "Fleet", "Key", "User", "Tenant", "Call", "Trace"],
  );
});

test("an id of a call or a trace that is exact comes first", () => {
  const found = [
    { kind: "User", text: "4bf9-user" },
    { kind: "Trace", text: "4bf9" },
  ];
  assert.equal(inOrder(found, "4BF9")[0]?.kind, "Trace");
});
