package toolschema

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// MaxBytes is the greatest length of a schema.
const MaxBytes = 256 << 10

// Hash identifies a tool's description and schema. It does not depend on the formatting of the schema's JSON (RFC
// 8785).
type Hash [sha256.Size]byte

// String is the hash in hexadecimal.
func (h Hash) String() string { return hex.EncodeToString(h[:]) }

// ParseHash parses the result of String.
func ParseHash(text string) (h Hash, ok bool) {
	n, err := hex.Decode(h[:], []byte(text[:min(len(text), 2*len(h))]))
	return h, err == nil && n == len(h) && len(text) == 2*n
}

// Schema is the compiled schema of one tool's arguments, or of its results. It is immutable.
type Schema struct {
	compiled  *jsonschema.Schema
	graph     *graph
	canonical []byte
	secrets   *Secrets
}

// Compile parses a JSON Schema (draft 2020-12 unless it names another). The error has the problem and its place in
// the schema. A schema that is too costly to check is rejected: a value would be checked against thousands of
// subschemas, a subschema applies itself without end, or a pattern is too large.
func Compile(text []byte) (*Schema, error) {
	if len(text) > MaxBytes {
		return nil, fmt.Errorf("has %d bytes; at most %d are allowed", len(text), MaxBytes)
	}
	doc, err := Decode(text)
	if err != nil {
		return nil, err
	}
	if _, ok := doc.(map[string]any); !ok {
		return nil, errors.New("must be an object, as in {type: object}")
	}
	canonical, err := canonicalize(text)
	if err != nil {
		return nil, fmt.Errorf("has no canonical form: %w", err)
	}
	const self = "tool:///input_schema"
	c := jsonschema.NewCompiler()
	c.UseLoader(noLoader{})
	var expressions patterns
	c.UseRegexpEngine(expressions.compile)
	if err := c.AddResource(self, doc); err != nil {
		return nil, explain(err)
	}
	compiled, err := c.Compile(self)
	if expressions.costly != nil {
		return nil, expressions.costly
	}
	if err != nil {
		return nil, explain(err)
	}
	graph, err := survey(compiled)
	if err != nil {
		return nil, err
	}
	return &Schema{compiled: compiled, graph: graph, canonical: canonical, secrets: secretsOf(doc, canonical)}, nil
}

// JSON is the schema as canonical JSON; nil of no schema. The caller must not change it.
func (s *Schema) JSON() []byte {
	if s == nil {
		return nil
	}
	return s.canonical
}

// IsOfObject reports whether the type at the top of the schema is object, and no other.
func (s *Schema) IsOfObject() bool {
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

// explain returns a one-line error for a schema that does not compile.
func explain(err error) error {
	var remote *remoteError
	if errors.As(err, &remote) {
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
