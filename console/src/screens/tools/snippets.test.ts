import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { test } from "node:test";
import { snippets } from "./snippets";

const nasty = `it's "$(touch x)" \`y\` \\ \u202e`;
const who = { tenant: "acme", user: "o'hara", agent: "", session: "" };

test("a shell reads the command as it was meant", () => {
  const args = JSON.stringify({ text: nasty });
  const { curl } = snippets(who, "we'ather", "get", args);
  // A curl that prints its arguments.
  const script = `curl() { printf '%s\\n' "$@"; }\n${curl}`;
  const lines = execFileSync("sh", ["-c", script], { env: { CAPGATE_URL: "http://x", CAPGATE_KEY: "k" } })
    .toString()
    .split("\n");
  assert.equal(lines[0], "http://x/v1/capabilities/we%27ather/tools/get");
  assert.ok(lines.includes("x-user-id: o'hara"));
  assert.deepEqual(JSON.parse(lines[lines.indexOf("-d") + 1] ?? ""), { text: nasty });
});

test("no character that cannot be seen is in a snippet", () => {
  for (const text of Object.values(snippets(who, "weather", "get", JSON.stringify({ text: nasty })))) {
    assert.match(text, /^[\x20-\x7e\n]*$/);
  }
});
