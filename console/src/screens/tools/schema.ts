// The form for the arguments of a tool, as its JSON schema has it: which field each value gets, and how it begins.

export type Schema = { [word: string]: unknown };

const deepest = 5;
const mostFields = 60;

export const text = (s: Schema, word: string) => (typeof s[word] === "string" ? (s[word] as string) : "");
export const number = (s: Schema, word: string) => (typeof s[word] === "number" ? (s[word] as number) : undefined);
export const schemaOf = (v: unknown): Schema => (v && typeof v === "object" && !Array.isArray(v) ? (v as Schema) : {});
export const properties = (s: Schema) =>
  Object.entries(schemaOf(s["properties"])).map(([name, of]) => [name, schemaOf(of)] as const);
export const demanded = (s: Schema): unknown[] => (Array.isArray(s["required"]) ? s["required"] : []);

/** kindOf is the field for a schema; json: none fits. */
export function kindOf(
  s: Schema,
  depth: number,
): "string" | "number" | "boolean" | "enum" | "list" | "object" | "json" {
  if (Array.isArray(s["enum"]) && s["enum"].length > 0 && s["enum"].every((e) => typeof e !== "object" || e === null))
    return "enum";
  const hard = ["anyOf", "oneOf", "allOf", "not", "if", "$ref", "$dynamicRef", "patternProperties", "prefixItems"].some(
    (w) => w in s,
  );
  if (hard || depth > deepest) return "json";
  switch (s["type"]) {
    case "string":
      return "string";
    case "number":
    case "integer":
      return "number";
    case "boolean":
      return "boolean";
    case "array":
      return Object.keys(schemaOf(s["items"])).length ? "list" : "json";
    case "object": {
      const fields = properties(s).length;
      return fields > 0 && fields <= mostFields && schemaOf(s["additionalProperties"])["type"] === undefined
        ? "object"
        : "json";
    }
  }
  return "json";
}

/** fits says whether there is a form for a tool's arguments. */
export const fits = (s: Schema) => kindOf({ type: "object", ...s }, 0) === "object" || properties(s).length === 0;

/** startOf is the value with which the form of a schema begins: defaults, and objects that are demanded. */
export function startOf(schema: Schema, depth = 0): unknown {
  if (schema["default"] !== undefined) return schema["default"];
  if ((schema["type"] ?? "object") !== "object" || depth > deepest) return undefined;
  const must = demanded(schema);
  const start = properties(schema).map(
    ([name, s]) =>
      [
        name,
        must.includes(name) || s["default"] !== undefined ? startOf({ type: "", ...s }, depth + 1) : undefined,
      ] as const,
  );
  return Object.fromEntries(start.filter(([, v]) => v !== undefined));
}
