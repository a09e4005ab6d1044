import assert from "node:assert/strict";
import { test } from "node:test";
import { callerOf, matrixOf } from "./rows";

test("decisions are rows of tools and columns of callers", () => {
  const { callers, rows } = matrixOf([
    { tool: "a", policy: "ask" },
    { tool: "a", user: "ann", policy: "allow" },
    { tool: "b", policy: "block", unlisted: true },
    { tool: "b", user: "ann", policy: "block" },
    { tool: "b", user: "ann", agent: "bot", policy: "allow" },
  ]);
  assert.deepEqual(callers.map(callerOf), ["anyone", "user ann", "user ann, agent bot"]);
  assert.deepEqual(
    rows.map((r) => [r.tool, r.unlisted, r.cells.map((c) => c?.policy)]),
    [
      ["a", false, ["ask", "allow"]],
      ["b", true, ["block", "block", "allow"]],
    ],
  );
});

test("a name that looks like two callers is in quotes", () => {
  assert.equal(callerOf({ user: "ann, agent bot", agent: "" }), 'user "ann, agent bot"');
  assert.equal(callerOf({ user: "ann", agent: "bot" }), "user ann, agent bot");
  assert.notEqual(callerOf({ user: 'ann", agent "bot', agent: "" }), callerOf({ user: "ann", agent: "bot" }));
});
