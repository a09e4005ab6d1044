import assert from "node:assert/strict";
import { test } from "node:test";
import { throttle } from "./throttle";

test("events that never pause are acted on once in each span of time", (t) => {
  t.mock.timers.enable({ apis: ["setTimeout"] });
  let runs = 0;
  const { ask, stop } = throttle(() => runs++, 1000);
  for (let i = 0; i < 50; i++) {
    ask();
    t.mock.timers.tick(100);
  }
  assert.equal(runs, 5);
  t.mock.timers.tick(5000);
  assert.equal(runs, 5);
  ask();
  stop();
  t.mock.timers.tick(5000);
  assert.equal(runs, 5);
});
