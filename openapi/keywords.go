package openapi

import (
	"maps"
	"regexp"
	"slices"
	"strings"
)

// kind is what a keyword's value is.
type kind int

const (
	dropped   kind = iota // unknown, or of no use in a document
	data                  // a value of any kind
	text                  // for people
	schema                // or true and false, which stand for themselves
	schemas               // a list
	schemaMap             // by name
)

// keywords are those of JSON Schema 2020-12 that a document keeps (OpenAPI 3.1 §4.8.24).
var keywords = map[string]kind{
	"title": text, "description": text, "$comment": dropped,
	"type": data, "enum": data, "const": data, "default": data, "examples": data, "deprecated": data,
	"readOnly": data, "writeOnly": data,
	"multipleOf": data, "maximum": data, "exclusiveMaximum": data, "minimum": data, "exclusiveMinimum": data,
	"maxLength": data, "minLength": data, "pattern": data, "format": data, "contentEncoding": data,
	"contentMediaType": data,
	"maxItems":         data, "minItems": data, "uniqueItems": data, "maxContains": data, "minContains": data,
	"maxProperties": data, "minProperties": data, "required": data, "dependentRequired": data,
	"additionalProperties": schema, "unevaluatedProperties": schema, "unevaluatedItems": schema, "items": schema,
	"contains":      schema,
	"propertyNames": schema, "not": schema, "if": schema, "then": schema, "else": schema, "contentSchema": schema,
	"allOf": schemas, "anyOf": schemas, "oneOf": schemas, "prefixItems": schemas,
	"properties": schemaMap, "patternProperties": schemaMap, "$defs": schemaMap, "dependentSchemas": schemaMap,
}

// today is an object of a schema as 2020-12 would have it, whichever draft it is of. It is a copy.
func today(old map[string]any) map[string]any {
	s := maps.Clone(old)
	if tuple, ok := s["items"].([]any); ok {
		s["prefixItems"] = tuple
		delete(s, "items")
		if rest, ok := s["additionalItems"]; ok {
			s["items"] = rest
		}
	}
	for exclusive, limit := range map[string]string{"exclusiveMinimum": "minimum", "exclusiveMaximum": "maximum"} {
		switch s[exclusive] {
		case true:
			s[exclusive] = s[limit]
			delete(s, limit)
		case false:
			delete(s, exclusive)
		}
	}
	if older, ok := s["definitions"].(map[string]any); ok {
		all := maps.Clone(older)
		newer, _ := s["$defs"].(map[string]any)
		maps.Copy(all, newer)
		s["$defs"] = all
	}
	if dynamic, ok := s["$dynamicRef"]; ok && s[refKeyword] == nil {
		s[refKeyword] = dynamic // there is one resource, where they are the same
	}
	if _, ok := s["$recursiveRef"]; ok && s[refKeyword] == nil {
		s[refKeyword] = "#"
	}
	return s
}

// refers is whether there is a reference in a value, which some follow wherever it is.
func refers(v any) bool {
	switch v := v.(type) {
	case map[string]any:
		_, found := v[refKeyword]
		return found || slices.ContainsFunc(slices.Collect(maps.Values(v)), refers)
	case []any:
		return slices.ContainsFunc(v, refers)
	}
	return false
}

// maxText is how many bytes of a description are shown.
const maxText = 4 << 10

var markup = regexp.MustCompile(`<([A-Za-z/!?])`)

// plain is what an author wrote for people, where CommonMark is expected: no HTML, and no pictures,
// which would be fetched.
func plain(s string) string {
	if len(s) > maxText {
		s = strings.ToValidUTF8(s[:maxText], "") + "…"
	}
	s = markup.ReplaceAllString(s, "&lt;$1")
	return strings.ReplaceAll(s, "![", `!\[`)
}
