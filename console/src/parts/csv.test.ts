import assert from "node:assert/strict";
import { test } from "node:test";
import { csvOf } from "./csv";

test("the columns are the fields of all rows", () => {
  assert.equal(
    csvOf([
      { a: 1, b: "x" },
      { b: "y", c: true },
    ]),
    "a,b,c\r\n1,x,\r\n,y,true\r\n",
  );
  assert.equal(csvOf([]), "\r\n");
});

test("texts that spreadsheets would run begin with an apostrophe", () => {
  for (const text of ["=1+1", "+1", "-1", "@SUM(A1)", "\t=1", "\r=1", "\n=1"]) {
    assert.match(csvOf([{ a: text }]), /^a\r\n"?'/, JSON.stringify(text));
    assert.match(csvOf([{ a: [text, "x"] }]), /^a\r\n"?'/, JSON.stringify(text));
    assert.match(csvOf([{ [text]: 1 }]), /^"?'/, JSON.stringify(text));
  }
  assert.equal(csvOf([{ a: -1 }]), "a\r\n-1\r\n"); // a number runs nothing
});

test("cells with commas, quotes and lines are quoted", () => {
  assert.equal(csvOf([{ a: 'x,"y"\nz' }]), 'a\r\n"x,""y""\nz"\r\n');
  assert.equal(csvOf([{ a: { b: "=1" }, c: ["x", "y"] }]), 'a,c\r\n"{""b"":""=1""}","x, y"\r\n');
});
