package toolschema

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/gowebpki/jcs"
	"github.com/santhosh-tekuri/jsonschema/v6"
)

// MaxBytes is how long a schema may be.
const MaxBytes = 256 << 10

// Hash is what a tool's description and schema are known by. It is the same however the
// schema's JSON is written (RFC 8785).
type Hash [sha256.Size]byte

// String is the hash in hexadecimal.
func (h Hash) String() string { return hex.EncodeToString(h[:]) }

// ParseHash reads what String writes.
func ParseHash(text string) (h Hash, ok bool) {
	n, err := hex.Decode(h[:], []byte(text[:min(len(text), 2*len(h))]))
	return h, err == nil && n == len(h) && len(text) == 2*n
}

// Schema is the compiled schema of one tool's arguments. It is immutable.
type Schema struct {
	compiled  *jsonschema.Schema
	graph     *graph
	canonical []byte
}

// Compile reads a JSON Schema (draft 2020-12 unless it names another). The error says what
// is wrong and where in the schema. One that is too costly to check is refused: a value would
// be checked against thousands of subschemas, a subschema applies itself without end, or a
// pattern is too large.
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
	canonical, err := jcs.Transform(text)
	if err != nil {
		return nil, fmt.Errorf("cannot be made canonical: %w", err)
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
	return &Schema{compiled: compiled, graph: graph, canonical: canonical}, nil
}

// JSON is the schema as canonical JSON. The caller must not change it.
func (s *Schema) JSON() []byte { return s.canonical }

// Hash is what a tool with this schema and a description is known by.
func (s *Schema) Hash(description string) (h Hash) {
	sum := sha256.New()
	text, _ := json.Marshal(description) // a string always can be
	sum.Write(text)                      // ends with a quote that no description forges
	sum.Write(s.canonical)
	sum.Sum(h[:0])
	return h
}

// noLoader finds no document: a schema is whole in itself.
type noLoader struct{}

func (noLoader) Load(url string) (any, error) {
	return nil, &remoteError{url}
}

type remoteError struct{ url string }

func (e *remoteError) Error() string {
	return fmt.Sprintf("%q is another document; write what is needed of it under $defs", e.url)
}

// explain says in one line why a schema does not compile.
func explain(err error) error {
	var remote *remoteError
	if errors.As(err, &remote) {
		return fmt.Errorf("refers to what is not in it: %w", remote)
	}
	var invalid *jsonschema.SchemaValidationError
	var wrong *jsonschema.ValidationError
	if errors.As(err, &invalid) && errors.As(invalid.Err, &wrong) {
		v := violation(wrong)
		return fmt.Errorf("is not a JSON Schema: at %q: %s", v.Pointer, v.Reason)
	}
	return fmt.Errorf("is not a JSON Schema: %w", err)
}
