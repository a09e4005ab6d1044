// Arguments of a tool to begin with, as its JSON schema has them.

type Schema = { [word: string]: unknown };

const deepest = 5;
const schemaOf = (v: unknown): Schema => (v && typeof v === "object" && !Array.isArray(v) ? (v as Schema) : {});
const first = (v: unknown): unknown => (Array.isArray(v) ? v[0] : undefined);
const atLeast = (s: Schema, word: string, least: number) =>
  typeof s[word] === "number" ? Math.max(s[word] as number, least) : least;

function value(s: Schema, depth: number): unknown {
  const given = [first(s["examples"]), s["default"], s["const"], first(s["enum"])].find((v) => v !== undefined);
  if (given !== undefined) return given;
  if (depth > deepest) return null;
  switch (Array.isArray(s["type"]) ? s["type"][0] : s["type"]) {
    case "string":
      return "text".padEnd(Math.min(atLeast(s, "minLength", 4), 200), "x");
    case "number":
    case "integer":
      return atLeast(s, "minimum", 1);
    case "boolean":
      return false;
    case "array":
      return atLeast(s, "minItems", 0) > 0 ? [value(schemaOf(s["items"]), depth + 1)] : [];
    case "null":
      return null;
  }
  return object(s, depth);
}

function object(s: Schema, depth: number): Record<string, unknown> {
  const of = schemaOf(s["properties"]);
  const must = Array.isArray(s["required"]) ? s["required"].filter((n): n is string => typeof n === "string") : [];
  return Object.fromEntries(
    must.filter((n) => Object.hasOwn(of, n)).map((n) => [n, value(schemaOf(of[n]), depth + 1)] as const),
  );
}

/** sample is an object with what a schema demands: examples, defaults, and otherwise any value of the type. */
export const sample = (schema: unknown): Record<string, unknown> => object(schemaOf(schema), 0);
