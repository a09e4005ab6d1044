package openapi

import (
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/capgate/capgate/internal/lib/untrusted"
)

// kind is the kind of a keyword's value.
type kind int

const (
	dropped   kind = iota // unknown, or useless in a document
	data                  // a value of any kind
	text                  // for people
	schema                // a schema, true or false
	schemas               // a list
	schemaMap             // by name
)

// keywords are the JSON Schema 2020-12 keywords that a document keeps (OpenAPI 3.1 §4.8.24).
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

// upgrade returns a copy of a schema object of any draft, in the keywords of 2020-12.
func upgrade(old map[string]any) map[string]any {
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
		s[refKeyword] = dynamic // a document has one resource, in which both keywords mean the same
	}
	if _, ok := s["$recursiveRef"]; ok && s[refKeyword] == nil {
		s[refKeyword] = "#"
	}
	return s
}

// hasReference reports whether a value contains a reference; some readers resolve it anywhere.
func hasReference(v any) bool {
	switch v := v.(type) {
	case map[string]any:
		_, found := v[refKeyword]
		return found || slices.ContainsFunc(slices.Collect(maps.Values(v)), hasReference)
	case []any:
		return slices.ContainsFunc(v, hasReference)
	}
	return false
}

// maxText is the maximum size of a description in bytes.
const maxText = 4 << 10

var markup = regexp.MustCompile(`<([A-Za-z/!?])`)

// plainText escapes an author's text for a CommonMark field: no HTML, and no images, which a viewer would fetch.
func plainText(s string) string {
	s = markup.ReplaceAllString(untrusted.Clip(s, maxText), "&lt;$1")
	return strings.ReplaceAll(s, "![", `!\[`)
}
