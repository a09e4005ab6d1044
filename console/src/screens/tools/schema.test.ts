import assert from "node:assert/strict";
import { test } from "node:test";
import { fits, kindOf, type Schema, startOf } from "./schema";

test("each kind of value has its field", () => {
  const kinds: [Schema, string][] = [
    [{ type: "string" }, "string"],
    [{ type: "integer" }, "number"],
    [{ type: "number" }, "number"],
    [{ type: "boolean" }, "boolean"],
    [{ type: "string", enum: ["a", "b"] }, "enum"],
    [{ enum: [1, null, "x"] }, "enum"],
    [{ enum: [{ a: 1 }] }, "json"],
    [{ type: "array", items: { type: "string" } }, "list"],
    [{ type: "array" }, "json"],
    [{ type: "object", properties: { a: {} } }, "object"],
    [{ type: "object" }, "json"],
    [{ type: "object", properties: { a: {} }, additionalProperties: { type: "string" } }, "json"],
    [{ type: "object", properties: { a: {} }, additionalProperties: false }, "object"],
    [{ type: ["string", "null"] }, "json"],
    [{}, "json"],
  ];
  for (const [schema, want] of kinds) assert.equal(kindOf(schema, 0), want, JSON.stringify(schema));
});

test("what a field cannot hold is JSON", () => {
  for (const hard of [
    "anyOf",
    "oneOf",
    "allOf",
    "not",
    "if",
    "$ref",
    "$dynamicRef",
    "patternProperties",
    "prefixItems",
  ]) {
    assert.equal(kindOf({ type: "object", properties: { a: {} }, [hard]: [] }, 0), "json", hard);
  }
  assert.equal(kindOf({ type: "object", properties: { a: {} } }, 6), "json", "too deep");
  const many = Object.fromEntries(Array.from({ length: 61 }, (_, i) => [`f${i}`, {}]));
  assert.equal(kindOf({ type: "object", properties: many }, 0), "json", "too many");
});

test("a tool without arguments, or with an object, has a form", () => {
  assert.equal(fits({}), true);
  assert.equal(fits({ properties: { a: { type: "string" } } }), true);
  assert.equal(fits({ properties: { a: { type: "string" } }, anyOf: [{}] }), false);
});

test("a form begins with defaults, and with the objects that are demanded", () => {
  const point = { type: "object", properties: { x: { type: "number", default: 1 }, y: { type: "number" } } };
  const schema = {
    properties: { at: point, to: point, unit: { default: "m" }, name: { type: "string" } },
    required: ["at", "name"],
  };
  assert.deepEqual(startOf(schema), { at: { x: 1 }, unit: "m" });
  assert.deepEqual(startOf({ default: { given: true } }), { given: true });
});

test("schemas of servers are no records to trust", () => {
  for (const odd of [
    { properties: [] },
    { properties: "x" },
    { properties: { a: null, b: 1 } },
    { required: "a" },
    { enum: 1 },
  ]) {
    kindOf(odd as Schema, 0);
    fits(odd as Schema);
    startOf(odd as Schema);
  }
  const own = JSON.parse('{"properties":{"__proto__":{"default":1}}}') as Schema;
  assert.deepEqual(Object.entries(startOf(own) as object), [["__proto__", 1]]);
});
