package approvals

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"slices"
	"strconv"
	"strings"

	"github.com/gowebpki/jcs"

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
// The hash is the SHA-256 of their canonical form (RFC 8785). That form writes numbers as doubles, which
// merges neighbouring long integers. The original text of such numbers is hashed too.
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
	for _, text := range n.inexact {
		sum.Write([]byte{0}) // a byte that canonical JSON never contains
		sum.Write([]byte(text))
	}
	sum.Sum(a.hash[:0])
	return a, nil
}

// numbers collects those of a value, in an order that depends on the canonical form only.
type numbers struct {
	seen    int
	inexact []string // those that a double cannot represent, each with its position
}

func (n *numbers) visit(value any) {
	switch v := value.(type) {
	case json.Number:
		if n.seen++; !isExact(string(v)) {
			n.inexact = append(n.inexact, strconv.Itoa(n.seen)+":"+string(v))
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

// isExact reports whether a double represents a number with all its digits.
func isExact(number string) bool {
	if len(number) <= 15 && !strings.ContainsAny(number, "eE") { // doubles hold 15 digits
		return true
	}
	f, err := strconv.ParseFloat(number, 64)
	return err == nil && digits(number) == digits(strconv.FormatFloat(f, 'e', -1, 64))
}

// digits returns the significant digits of a number, without sign, point and exponent.
func digits(number string) string {
	number = strings.TrimPrefix(number, "-")
	if e := strings.IndexAny(number, "eE"); e >= 0 {
		number = number[:e]
	}
	return strings.Trim(strings.ReplaceAll(number, ".", ""), "0")
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
