import assert from "node:assert/strict";
import { test } from "node:test";
import { diff, pretty } from "./diff";

const shown = (before: string, after: string) => diff(before, after).map((l) => l.sign + l.text);

test("equal texts have no changed line", () => {
  assert.deepEqual(shown("a\nb", "a\nb"), [" a", " b"]);
});

test("only what changed is marked", () => {
  assert.deepEqual(shown("a\nb\nc\nd", "a\nc\nx\nd"), [" a", "-b", " c", "+x", " d"]);
});

test("a text out of nothing, and nothing out of a text", () => {
  assert.deepEqual(shown("", "a"), ["-", "+a"]);
  assert.deepEqual(shown("a", ""), ["-a", "+"]);
});

test("both texts can be put together from the difference", () => {
  // All texts of up to four lines out of two.
  const texts = [""];
  for (let i = 0; i < 4; i++) texts.push(...texts.slice(-(2 ** i)).flatMap((t) => [`${t}a\n`, `${t}b\n`]));
  for (const before of texts) {
    for (const after of texts) {
      const lines = diff(before, after);
      const of = (sign: string) => lines.filter((l) => l.sign !== sign).map((l) => l.text);
      assert.equal(of("+").join("\n"), before);
      assert.equal(of("-").join("\n"), after);
    }
  }
});

test("texts that would take too long are replaced as a whole", () => {
  const many = Array.from({ length: 2000 }, (_, i) => (i === 1000 ? "both" : `line ${i}`)).join("\n");
  for (const [before, after] of [
    [`${many}\nend`, "a\nboth\nb"],
    ["a\nboth\nb", `${many}\nend`],
  ] as const) {
    assert.ok(!diff(before, after).some((l) => l.sign === " "));
    assert.ok(diff(before.replace("\nend", ""), after.replace("\nend", "")).some((l) => l.sign === " "));
  }
});

test("the order of names is no difference, that of a list is", () => {
  assert.equal(pretty('{"b":[2,1],"a":{"d":1,"c":null}}'), pretty('{"a":{"c":null,"d":1},"b":[2,1]}'));
  assert.notEqual(pretty("[1,2]"), pretty("[2,1]"));
});

test("what is no JSON stays as it is", () => {
  assert.equal(pretty("{oops"), "{oops");
  assert.equal(pretty(undefined), "{}");
});
