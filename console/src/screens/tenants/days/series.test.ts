import assert from "node:assert/strict";
import { test } from "node:test";
import { datesOf, seriesOf, shareOf } from "./series";

test("each limit has a row of days", () => {
  const dates = datesOf(3, Date.parse("2026-03-01T12:00:00Z"));
  assert.deepEqual(dates, ["2026-02-27", "2026-02-28", "2026-03-01"]);
  const all = seriesOf(
    [
      { date: "2026-02-26", limit: "per_day", used: 1, max: 10 },
      { date: "2026-02-27", limit: "per_day", used: 8, max: 10 },
      { date: "2026-03-01", limit: "per_day", used: 8, max: 20 },
      { date: "2026-03-01", limit: "per_day", per: "user", tool: "send", used: 3, max: 4 },
    ],
    dates,
  );
  assert.deepEqual(
    all.map((s) => [s.per, s.of, s.max, s.days.map(shareOf)]),
    [
      ["", "", 20, [0.8, 0, 0.4]],
      ["user", "send", 4, [0, 0, 0.75]],
    ],
  );
});
