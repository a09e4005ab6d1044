package approvals

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"slices"
	"strconv"

	"github.com/gowebpki/jcs"

	"github.com/capgate/capgate/internal/lib/strictjson"
	"github.com/capgate/capgate/internal/toolschema"
)

// arguments are a call's parsed arguments with their hash.
type arguments struct {
	text  []byte // as sent
	value any    // as parsed by toolschema.Decode
	hash  [sha256.Size]byte
}

// readArguments parses arguments. It fails if other parsers could read them differently. The error
// contains nothing of their values.
//
// The hash is the SHA-256 of their canonical form (RFC 8785). That form writes numbers as doubles, which merges
// neighbouring long integers, 0 and -0, and 1 and 1.0, which some decoders tell apart. So the text of each number in
// another form is hashed too. Where names of one object differ in case alone, their order counts: some decoders take
// the last of them for both.
func readArguments(text []byte) (a arguments, err error) {
	if a.text = bytes.TrimSpace(text); len(a.text) == 0 {
		a.text = []byte("{}")
	}
	if a.value, err = toolschema.Decode(a.text); err != nil {
		return a, err
	}
	canonical, err := jcs.Transform(a.text)
	if err != nil {
		return a, errors.New("contain a number or a character that is not portable") // the library's error quotes
	}
	sum := sha256.New()
	sum.Write(canonical)
	var n numbers
	n.visit(a.value)
	for _, text := range n.other {
		sum.Write([]byte{0}) // a byte that canonical JSON never contains
		sum.Write([]byte(text))
	}
	if text := ordered(a.text); text != nil {
		sum.Write([]byte{0, 0})
		sum.Write(text)
	}
	sum.Sum(a.hash[:0])
	return a, nil
}

// numbers collects those of a value, in an order that depends on the canonical form only.
type numbers struct {
	seen  int
	other []string // numbers that are not in canonical form, each with its position
}

func (n *numbers) visit(value any) {
	switch v := value.(type) {
	case json.Number:
		if n.seen++; !isCanonical(string(v)) {
			n.other = append(n.other, strconv.Itoa(n.seen)+":"+string(v))
		}
	case []any:
		for _, e := range v {
			n.visit(e)
		}
	case map[string]any:
		for _, name := range sortedNames(v) {
			n.visit(v[name])
		}
	}
}

// isCanonical reports whether a number is written as RFC 8785 writes its double.
func isCanonical(number string) bool {
	f, err := strconv.ParseFloat(number, 64)
	if err != nil {
		return false
	}
	text, err := jcs.NumberToJSON(f)
	return err == nil && text == number
}

// ordered returns the arguments without spaces between values if the order of names can matter to a decoder that does
// not tell case apart; else nil.
func ordered(text []byte) []byte {
	r := strictjson.Get()
	defer r.Release()
	if r.Read(text, strictjson.Options{Fold: true, Values: toolschema.MaxValues}) == nil {
		return nil
	}
	var compact bytes.Buffer
	_ = json.Compact(&compact, text) // it is valid JSON
	return compact.Bytes()
}

func sortedNames(object map[string]any) []string {
	names := make([]string, 0, len(object))
	for name := range object {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// sumOf returns an unambiguous hash of a list of strings.
func sumOf(words ...string) (s Sum) {
	h := sha256.New()
	for _, w := range words {
		var n [8]byte
		binary.BigEndian.PutUint64(n[:], uint64(len(w)))
		h.Write(n[:])
		h.Write([]byte(w))
	}
	h.Sum(s[:0])
	return s
}

func (w *Binding) sum() Sum {
	return sumOf(w.User, w.Agent, w.Capability, w.Tool, string(w.Schema[:]), string(w.ArgsHash[:]), w.Session, w.Thread,
		string(w.Settings[:]))
}

// sessionSum returns nil for a call without a session.
func sessionSum(r *Request) *Sum {
	if r.Session == "" || byBackend(r.Level) {
		return nil
	}
	s := sumOf(r.User, r.Agent, r.Capability, r.Tool, string(r.Schema[:]), r.Session)
	return &s
}
