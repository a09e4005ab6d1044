package openapi

import (
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"net/url"
	"sync"

	"github.com/capgate/capgate/internal/lib/plainjson"
)

// MaxBytes is the approximate maximum size of a document. Tools that do not fit are left out, and the document has
// x-capgate-left-out.
const MaxBytes = 4 << 20

// Capability has the tools that a caller may use.
type Capability struct {
	ID    string
	Tools []Tool
}

// Tool is a tool that a caller may use.
type Tool struct {
	Name        string
	Description string
	Schema      map[string]any // JSON Schema of its arguments, as encoding/json reads it; it is not changed
	Policy      string         // allow or ask
	Terminal    bool           // an agent's loop ends after a successful call
}

//go:embed routes.json
var routes []byte

// Documents writes documents. It is immutable.
type Documents struct {
	fixed    document
	names    names // of fixed
	template operation
	version  string
}

// document defines the order of a document's fields.
type document struct {
	OpenAPI    string                                `json:"openapi"`
	Info       json.RawMessage                       `json:"info"`
	Servers    json.RawMessage                       `json:"servers"`
	Security   json.RawMessage                       `json:"security"`
	Tags       []json.RawMessage                     `json:"tags"`
	Paths      map[string]json.RawMessage            `json:"paths"`
	Components map[string]map[string]json.RawMessage `json:"components"`
	Template   json.RawMessage                       `json:"x-tool-operation,omitempty"`
	LeftOut    bool                                  `json:"x-capgate-left-out,omitempty"`
}

// operation is the OpenAPI operation of a tool.
type operation struct {
	Tags        []string        `json:"tags,omitempty"`
	ID          string          `json:"operationId"`
	Summary     string          `json:"summary"`
	Description string          `json:"description,omitempty"`
	Parameters  json.RawMessage `json:"parameters"`
	Body        any             `json:"requestBody"`
	Responses   json.RawMessage `json:"responses"`
	Policy      string          `json:"x-capgate-policy,omitempty"`
	Terminal    bool            `json:"x-capgate-terminal-on-success,omitempty"`
}

// New reads the fixed part of all documents.
func New() (*Documents, error) { return fixed() }

// fixed reads it once: all gateways of a process write the same.
var fixed = sync.OnceValues(func() (*Documents, error) {
	sum := sha256.Sum256(routes)
	d := &Documents{version: hex.EncodeToString(sum[:])}
	if err := json.Unmarshal(routes, &d.fixed); err != nil {
		return nil, fmt.Errorf("routes.json: %w", err)
	}
	if err := json.Unmarshal(d.fixed.Template, &d.template); err != nil {
		return nil, fmt.Errorf("routes.json: x-tool-operation: %w", err)
	}
	d.fixed.Template = nil
	var err error
	d.names, err = fixedNames(&d.fixed)
	return d, err
})

// Version identifies the fixed part.
func (d *Documents) Version() string { return d.version }

// WithoutKeys returns the documents of a gateway that asks its callers for no credential.
func (d *Documents) WithoutKeys() *Documents {
	open := *d
	open.version += " without keys"
	open.fixed.Security = json.RawMessage("[]")
	open.fixed.Components = maps.Clone(d.fixed.Components)
	delete(open.fixed.Components, "securitySchemes")
	return &open
}

// Write makes the document with these tools, as JSON. more means that the caller has further tools, which were not
// listed.
func (d *Documents) Write(capabilities []Capability, more bool) ([]byte, error) {
	doc := d.fixed
	doc.Tags = nil // those of tools come first
	doc.Paths = maps.Clone(doc.Paths)
	doc.Components = maps.Clone(doc.Components)
	doc.Components["schemas"] = maps.Clone(doc.Components["schemas"])
	doc.LeftOut = more
	taken, room := d.names.clone(), MaxBytes-len(routes)
	for _, c := range capabilities {
		for i, t := range c.Tools {
			name := taken.of(c.ID, t.Name)
			parts, size, err := encodeAll(schemaOf(name, t.Schema, taken))
			if err != nil {
				return nil, err
			}
			item, err := encode(map[string]any{"post": d.operation(c.ID, t, name)})
			if err != nil {
				return nil, err
			}
			if room -= size + len(item); room < 0 {
				doc.LeftOut, doc.Tags = true, append(doc.Tags, d.fixed.Tags...)
				return encode(doc)
			}
			maps.Copy(doc.Components["schemas"], parts)
			doc.Paths["/v1/capabilities/"+url.PathEscape(c.ID)+"/tools/"+url.PathEscape(t.Name)] = item
			if i > 0 {
				continue
			}
			tag, err := encode(map[string]string{"name": tagOf(c.ID),
				"description": "Tools of the capability " + plainText(c.ID) + "."})
			if err != nil {
				return nil, err
			}
			doc.Tags = append(doc.Tags, tag)
		}
	}
	doc.Tags = append(doc.Tags, d.fixed.Tags...)
	return encode(doc)
}

// tagOf returns the tag of a capability's operations, distinct from the gateway's tags.
func tagOf(capability string) string { return "capability " + capability }

func (d *Documents) operation(capability string, t Tool, schema string) operation {
	o := d.template
	o.Tags = []string{tagOf(capability)}
	o.ID, o.Summary, o.Description, o.Policy, o.Terminal = schema, t.Name, plainText(t.Description), t.Policy,
		t.Terminal
	o.Body = map[string]any{
		"required": true,
		"content": map[string]any{"application/json": map[string]any{"schema": map[string]any{"$ref": componentPath +
			schema}}},
	}
	return o
}

const componentPath = "#/components/schemas/"

// encodeAll encodes components. It returns their size in bytes.
func encodeAll(parts map[string]any) (all map[string]json.RawMessage, size int, err error) {
	all = make(map[string]json.RawMessage, len(parts))
	for name, part := range parts {
		if all[name], err = encode(part); err != nil {
			return nil, 0, err
		}
		size += len(name) + len(all[name])
	}
	return all, size, nil
}

// encode writes v without HTML escapes; the document is not embedded in HTML.
func encode(v any) (json.RawMessage, error) {
	text, err := plainjson.Marshal(v)
	if err != nil {
		return nil, fmt.Errorf("write an openapi document: %w", err)
	}
	return append(text, '\n'), nil
}
