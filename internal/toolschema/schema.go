package toolschema

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// MaxBytes is the greatest length of a schema.
const MaxBytes = 256 << 10

// Hash identifies a tool's description and schema. It does not depend on the formatting of the schema's JSON (RFC
// 8785).
type Hash [sha256.Size]byte

// String returns the hash in hexadecimal.
func (h Hash) String() string { return hex.EncodeToString(h[:]) }

// ParseHash parses the result of String.
func ParseHash(text string) (h Hash, ok bool) {
	n, err := hex.Decode(h[:], []byte(text[:min(len(text), 2*len(h))]))
	return h, err == nil && n == len(h) && len(text) == 2*n
}

// Schema is the compiled schema of one tool's arguments, or of its results. It is immutable.
type Schema struct {
	compiled  *jsonschema.Schema // nil: nothing is checked
	graph     *graph
	canonical []byte
	secrets   *Secrets
	unchecked []string
	size      int
}

// Compile parses a JSON Schema strictly. The error is for its author, and contains the problem and its place. A schema
// without $schema is of draft 2020-12, or else of the older draft of which it is a valid schema, without later rules. A
// schema that is too costly to check is rejected: a value would be checked against thousands of subschemas, a subschema
// applies itself without end, or a pattern is too large.
func Compile(text []byte) (*Schema, error) {
	s, doc, err := parse(text)
	if err != nil {
		return nil, err
	}
	return s, s.compile(doc)
}

// CompileLenient parses the JSON Schema of a server's tool, which remains usable if its schema cannot be checked:
// Unchecked then returns the reason. It returns an error for a text that is no JSON object, or too large.
func CompileLenient(text []byte) (*Schema, error) {
	s, doc, err := parse(text)
	if err != nil {
		return nil, err
	}
	if err := s.compile(doc); err != nil {
		s.compiled, s.unchecked = nil, []string{err.Error()}
	}
	return s, nil
}

// Unchecked returns the parts of the schema that arguments are not checked against, each with the reason; nil of a
// schema that is checked as a whole. The caller must not change it.
func (s *Schema) Unchecked() []string {
	if s == nil {
		return nil
	}
	return s.unchecked
}

// parse returns a schema that checks nothing yet, and its text as a document.
func parse(text []byte) (s *Schema, doc map[string]any, err error) {
	if len(text) > MaxBytes {
		return nil, nil, fmt.Errorf("has %d bytes; at most %d are allowed", len(text), MaxBytes)
	}
	value, err := Decode(text)
	if err != nil {
		return nil, nil, err
	}
	doc, ok := value.(map[string]any)
	if !ok {
		return nil, nil, errors.New("must be an object, as in {type: object}")
	}
	canonical, err := canonicalize(text)
	if err != nil {
		return nil, nil, fmt.Errorf("has no canonical form: %w", err)
	}
	return &Schema{canonical: canonical, secrets: secretsOf(doc, canonical), size: sizeOf(canonical)}, doc, nil
}

// older are the drafts that a schema may be of which is no valid schema of draft 2020-12, and names none.
var older = []*jsonschema.Draft{jsonschema.Draft7, jsonschema.Draft4} //nolint:gochecknoglobals // a table

// newer reports whether a schema, or one below it, has a rule that a draft of older does not know: such a draft would
// ignore it.
func newer(schema any, draft *jsonschema.Draft) bool {
	if list, is := schema.([]any); is {
		return slices.ContainsFunc(list, func(one any) bool { return newer(one, draft) })
	}
	of, _ := schema.(map[string]any)
	for word, value := range of {
		switch word {
		case "dependentRequired", "dependentSchemas", "maxContains", "minContains", "prefixItems", "unevaluatedItems",
			"unevaluatedProperties", "$dynamicRef", "$recursiveRef":
			return true
		case "const":
			if draft == jsonschema.Draft4 {
				return true
			}
		case "contains", "if", "propertyNames":
			if draft == jsonschema.Draft4 || newer(value, draft) {
				return true
			}
		case "default", "enum", "examples": // no schemas
		case "$defs", "definitions", "dependencies", "patternProperties", "properties":
			named, _ := value.(map[string]any)
			if newer(slices.Collect(maps.Values(named)), draft) {
				return true
			}
		default:
			if newer(value, draft) {
				return true
			}
		}
	}
	return false
}

func (s *Schema) compile(doc map[string]any) error {
	err := s.compileAs(doc, jsonschema.Draft2020)
	name, named := doc["$schema"].(string)
	if remote := remoteOf(err); named && remote != nil && remote.url == strings.TrimSuffix(name, "#") { // of no draft
		doc, named = maps.Clone(doc), false
		delete(doc, "$schema")
		err = s.compileAs(doc, jsonschema.Draft2020)
	}
	var invalid *jsonschema.SchemaValidationError
	for _, draft := range older {
		if named || !errors.As(err, &invalid) {
			break
		}
		if !newer(doc, draft) && s.compileAs(doc, draft) == nil {
			return nil
		}
	}
	return explain(err)
}

func (s *Schema) compileAs(doc map[string]any, draft *jsonschema.Draft) error {
	const self = "tool:///input_schema"
	c := jsonschema.NewCompiler()
	c.UseLoader(noLoader{})
	c.DefaultDraft(draft)
	var expressions patterns
	c.UseRegexpEngine(expressions.compile)
	if err := c.AddResource(self, doc); err != nil {
		return err
	}
	compiled, err := c.Compile(self)
	if expressions.costly != nil {
		return expressions.costly
	}
	if err != nil {
		return err
	}
	graph, err := survey(compiled)
	if err != nil {
		return err
	}
	s.compiled, s.graph, s.unchecked = compiled, graph, expressions.unchecked
	s.size += len(graph.subschemas)*subschemaBytes + expressions.instructions*instructionBytes
	return nil
}

// The memory of parts of a schema, in bytes, as measured.
const (
	subschemaBytes   = 1200
	instructionBytes = 64
	objectBytes      = 400
	valueBytes       = 64
)

// sizeOf returns the memory of a document and its canonical form.
func sizeOf(canonical []byte) int {
	count := func(text string) int { return bytes.Count(canonical, []byte(text)) }
	return 2*len(canonical) + count("{")*objectBytes + (count("[")+count(","))*valueBytes
}

// Size estimates the memory of the schema in bytes.
func (s *Schema) Size() int {
	if s == nil {
		return 0
	}
	return s.size
}

// JSON returns the schema as canonical JSON; nil of no schema. The caller must not change it.
func (s *Schema) JSON() []byte {
	if s == nil {
		return nil
	}
	return s.canonical
}

// IsOfObject reports whether the type at the top of the schema is object, and no other.
func (s *Schema) IsOfObject() bool {
	if s.compiled == nil {
		var top struct {
			Type any `json:"type"`
		}
		return json.Unmarshal(s.canonical, &top) == nil && top.Type == "object"
	}
	types := s.compiled.Types
	return types != nil && slices.Equal(types.ToStrings(), []string{"object"})
}

// Hash returns the hash of a tool with this schema, a description, and a schema of its result; nil: it has none.
func (s *Schema) Hash(description string, output *Schema) (h Hash) {
	sum := sha256.New()
	text, _ := json.Marshal(description) // a string never fails
	sum.Write(text)                      // the closing quote separates it from the schema
	sum.Write(s.canonical)
	if output != nil {
		sum.Write(output.canonical) // the closing brace separates it
	}
	sum.Sum(h[:0])
	return h
}

// noLoader rejects every document: a schema is self-contained.
type noLoader struct{}

func (noLoader) Load(url string) (any, error) {
	return nil, &remoteError{url}
}

type remoteError struct{ url string }

func (e *remoteError) Error() string {
	return fmt.Sprintf("%q is another document; copy the needed definitions into $defs", e.url)
}

// remoteOf returns the error of noLoader that a schema did not compile by; nil: another.
func remoteOf(err error) (remote *remoteError) {
	var failed *jsonschema.LoadURLError // does not unwrap
	if errors.As(err, &failed) {
		errors.As(failed.Err, &remote)
	}
	return remote
}

// explain returns a one-line error for a schema that does not compile.
func explain(err error) error {
	var costly *costlyError
	if err == nil || errors.As(err, &costly) {
		return err
	}
	if remote := remoteOf(err); remote != nil {
		return fmt.Errorf("refers to another document: %w", remote)
	}
	var invalid *jsonschema.SchemaValidationError
	var wrong *jsonschema.ValidationError
	if errors.As(err, &invalid) && errors.As(invalid.Err, &wrong) {
		v := violation(wrong)
		return fmt.Errorf("is not a JSON Schema: at %q: %s", v.Pointer, v.Reason)
	}
	return fmt.Errorf("is not a JSON Schema: %w", err)
}
