import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { test } from "node:test";
import { sample } from "./sample";
import { snippets } from "./snippets";

const nasty = `it's "$(touch x)" \`y\` \\ \u202e`;
const who = { user: "o'hara", agent: "", session: "" };
const key = { url: "", key: true };

test("a shell reads the command as it was meant", () => {
  const args = JSON.stringify({ text: nasty });
  for (const to of [key, { url: "http://x", key: false }]) {
    const { curl } = snippets(to, who, "we'ather", "get", args);
    // A curl that prints its arguments.
    const script = `curl() { printf '%s\\n' "$@"; }\n${curl}`;
    const lines = execFileSync("sh", ["-c", script], { env: { CAPGATE_URL: "http://x", CAPGATE_KEY: "k" } })
      .toString()
      .split("\n");
    assert.equal(lines[1], "http://x/v1/capabilities/we%27ather/tools/get");
    assert.ok(lines.includes("x-user-id: o'hara"));
    assert.equal(lines.includes("Authorization: Bearer k"), to.key);
    assert.deepEqual(JSON.parse(lines[lines.indexOf("-d") + 1] ?? ""), { text: nasty });
  }
});

test("no character that cannot be seen is in a snippet", () => {
  for (const text of Object.values(snippets(key, who, "weather", "get", JSON.stringify({ text: nasty })))) {
    assert.match(text, /^[\t\x20-\x7e\n]*$/);
  }
});

test("a sample has what a schema demands", () => {
  const schema = {
    type: "object",
    required: ["city", "days", "units", "tags", "at"],
    properties: {
      city: { type: "string", examples: ["Berlin"] },
      days: { type: "integer", minimum: 2 },
      units: { enum: ["metric", "imperial"] },
      tags: { type: "array", minItems: 1, items: { type: "string" } },
      at: { type: "object", required: ["lat"], properties: { lat: { type: "number" }, lon: { type: "number" } } },
      more: { type: "string" },
    },
  };
  assert.deepEqual(sample(schema), { city: "Berlin", days: 2, units: "metric", tags: ["text"], at: { lat: 1 } });
  assert.deepEqual(sample({ $ref: "#/$defs/x" }), {});
});
