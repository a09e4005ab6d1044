package openapi

import (
	"net/url"
	"strconv"
	"strings"
)

// escape returns a name as a token of a JSON pointer (RFC 6901 §3).
func escape(name string) string {
	return strings.ReplaceAll(strings.ReplaceAll(name, "~", "~0"), "/", "~1")
}

func unescape(token string) string {
	return strings.ReplaceAll(strings.ReplaceAll(token, "~1", "/"), "~0", "~")
}

// upgradePointer translates a pointer into a schema to one into its upgraded copy.
func upgradePointer(pointer string) string {
	tokens := strings.Split(pointer, "/")
	for i := 1; i < len(tokens); i++ {
		numbered := false
		if i+1 < len(tokens) {
			_, err := strconv.Atoi(tokens[i+1])
			numbered = err == nil
		}
		switch t := tokens[i]; {
		case t == "definitions":
			tokens[i] = "$defs"
			i++ // the next token is a name
		case t == "items" && numbered:
			tokens[i] = "prefixItems"
			i++
		case keywords[t] == schemaMap || keywords[t] == schemas:
			i++
		}
	}
	return strings.Join(tokens, "/")
}

// resolve returns the schema at a pointer.
func (s *converter) resolve(pointer string) (map[string]any, bool) {
	if pointer != "" && pointer[0] != '/' {
		return nil, false
	}
	var at any = s.root
	for _, token := range strings.Split(pointer, "/")[1:] {
		switch v := at.(type) {
		case map[string]any:
			at = v[unescape(token)]
		case []any:
			i, err := strconv.Atoi(token)
			if err != nil || i < 0 || i >= len(v) {
				return nil, false
			}
			at = v[i]
		}
	}
	found, ok := at.(map[string]any)
	return found, ok
}

// uri returns the document's reference to a pointer of the schema.
func (s *converter) uri(pointer string) string {
	component, rest := s.target(pointer)
	tokens := strings.Split(rest, "/")
	for i, t := range tokens {
		tokens[i] = url.PathEscape(t)
	}
	return componentPath + component + strings.Join(tokens, "/")
}
