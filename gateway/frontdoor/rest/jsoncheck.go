package rest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"hash/maphash"
	"unicode/utf8"
)

// maxDepth is how deep arrays and objects may nest, the body itself counted.
const maxDepth = 100

// checkJSON rejects data that is not one JSON text (RFC 8259), and JSON that parsers read differently or not at
// all: a name twice in an object, nesting deeper than maxDepth, invalid UTF-8. Its errors never quote data.
func checkJSON(data []byte) error {
	if !utf8.Valid(data) {
		return errors.New("the body is not valid UTF-8")
	}
	if err := checkNesting(data); err != nil {
		return err
	}
	if json.Valid(data) {
		return nil
	}
	var syntax *json.SyntaxError
	if err := json.Unmarshal(data, new(json.RawMessage)); errors.As(err, &syntax) {
		at := min(max(int(syntax.Offset)-1, 0), len(data)) // Offset counts the offending byte
		line := bytes.Count(data[:at], []byte{'\n'}) + 1
		column := at - bytes.LastIndexByte(data[:at], '\n')
		return fmt.Errorf("the body is not valid JSON: syntax error in line %d, column %d", line, column)
	}
	return errors.New("the body is not valid JSON")
}

// twiceError is a name that is there twice in an object. Errors quote no names: those of a configuration may be
// secrets.
type twiceError struct {
	in string // the member of the body that the object is in, "" where that is the body itself
	at int    // byte
}

func (e *twiceError) Error() string {
	return fmt.Sprintf("the body has an object with the same name twice, at byte %d", e.at)
}

// level is an array or object that is open.
type level struct {
	object bool
	name   bool                // the next string is a name
	names  map[uint64]struct{} // hashes of the names so far
}

// checkNesting looks at depth and names. data may be anything: where it is not JSON
// the answer means nothing, but there is one.
func checkNesting(data []byte) error {
	seed := maphash.MakeSeed() // names are stored as 64-bit hashes with a random seed
	var open []level
	var member []byte // of the body, that is being read
	for i := 0; i < len(data); i++ {
		switch c := data[i]; c {
		case '{', '[':
			if len(open) == maxDepth {
				return fmt.Errorf("the body nests deeper than %d levels", maxDepth)
			}
			open = append(open, level{object: c == '{', name: c == '{'})
		case '}', ']':
			if len(open) > 0 {
				open = open[:len(open)-1]
			}
		case ',':
			if len(open) > 0 {
				open[len(open)-1].name = open[len(open)-1].object
			}
		case '"':
			end := stringEnd(data, i)
			if len(open) > 0 && open[len(open)-1].name {
				name := unescaped(data[i:end])
				if len(open) == 1 {
					member = name
				}
				if !open[len(open)-1].add(maphash.Bytes(seed, name)) {
					return &twiceError{in: string(member[:len(member)*min(len(open)-1, 1)]), at: i}
				}
			}
			i = end - 1
		}
	}
	return nil
}

func (l *level) add(name uint64) bool {
	l.name = false
	if _, ok := l.names[name]; ok {
		return false
	}
	if l.names == nil {
		l.names = make(map[uint64]struct{})
	}
	l.names[name] = struct{}{}
	return true
}

// stringEnd is the index after the string that begins at data[start].
func stringEnd(data []byte, start int) int {
	for i := start + 1; i < len(data); i++ {
		switch data[i] {
		case '\\':
			i++
		case '"':
			return i + 1
		}
	}
	return len(data)
}

// unescaped is the text of a JSON string, so that "a" and "\u0061" are one name.
func unescaped(literal []byte) []byte {
	if bytes.IndexByte(literal, '\\') < 0 && len(literal) >= 2 {
		return literal[1 : len(literal)-1]
	}
	var s string
	if json.Unmarshal(literal, &s) != nil {
		return literal // not JSON: checkJSON reports it
	}
	return []byte(s)
}
