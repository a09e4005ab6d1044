package config

import (
	_ "embed" // the schema
	"encoding/json"
	"reflect"
	"strings"
	"sync"

	"github.com/capgate/capgate/internal/lib/strictyaml"
)

// SchemaURL is the URL of the schema, for editors.
const SchemaURL = "https://raw.githubusercontent.com/capgate/capgate/main/internal/config/schema.json"

//go:embed schema.json
var schema []byte

// Schema returns the JSON Schema of the configuration, draft 2020-12.
func Schema() []byte { return schema }

// Describe describes the configuration. doc returns the documentation of a field of a Go struct.
func Describe(doc func(of reflect.Type, field string) string, protocols ...*Protocol) *strictyaml.Description {
	c := &Config{protocols: protocols}
	all := c.decoder("").Describe(c, doc)
	all.Schema["$schema"] = "https://json-schema.org/draft/2020-12/schema"
	all.Schema["$id"] = SchemaURL
	all.Schema["title"] = "Configuration of capgate"
	return all
}

// node has the parts of a schema that lead to descriptions.
type node struct {
	Description string
	Properties  map[string]*node
	Items       *node
}

var root = sync.OnceValue(func() (n node) {
	_ = json.Unmarshal(schema, &n) // a generated file; without it errors say less
	return n
})

// describe returns the first sentence about a field, by its path in the file.
func describe(path string) string {
	n := root()
	at := &n
	for name := range strings.SplitSeq(path, ".") {
		name, index, isItem := strings.Cut(name, "[")
		if at = at.Properties[name]; at == nil {
			return ""
		}
		for range strings.Count(index, "[") + 1 {
			if isItem && at.Items != nil {
				at = at.Items
			}
		}
	}
	text, _, _ := strings.Cut(at.Description, ". ")
	text = strings.TrimSuffix(text, ".")
	if len(text) > 1 && (text[1] >= 'a' || text[1] == ' ') { // an abbreviation keeps its capitals
		text = strings.ToLower(text[:1]) + text[1:]
	}
	return text
}
