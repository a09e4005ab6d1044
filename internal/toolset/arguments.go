package toolset

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/capgate/capgate/internal/lib/strictjson"
)

// Bounds of the fixed arguments of a tool.
const (
	maxArguments     = 32
	maxArgumentBytes = 16 << 10 // of all
)

// ParseArguments parses a JSON object of fixed arguments.
func ParseArguments(text []byte) (all Arguments, err error) {
	var members map[string]json.RawMessage
	switch err := strictjson.Unmarshal(text, &members); {
	case len(members) > maxArguments || len(text) > maxArgumentBytes:
		return nil, fmt.Errorf("there are more than %d arguments, or they have more than %d bytes", maxArguments,
			maxArgumentBytes)
	case err != nil || len(members) == 0:
		return nil, errors.New("must be a mapping of JSON values, as in {name: value}")
	}
	for _, name := range slices.Sorted(maps.Keys(members)) {
		a := Argument{Name: name, Value: members[name], folded: strictjson.Fold(name)}
		if a.Name == "" || slices.ContainsFunc(all, func(b Argument) bool { return a.folded == b.folded }) {
			return nil, fmt.Errorf("the name %.64q is empty, or differs from another one in case alone", a.Name)
		}
		all = append(all, a)
	}
	return all, nil
}

// FixedError is the error of a call with an argument that a toolset fixes.
type FixedError struct{ Name string }

// Error implements error.
func (e *FixedError) Error() string {
	return fmt.Sprintf("the argument %.128q has a fixed value in this toolset; leave it out", e.Name)
}

// Fill returns the arguments of a call with the fixed ones, in a copy of at most len(args) and Size bytes. root is the
// JSON object args as it was read. An argument of the call with the name of a fixed one, also in another case, is a
// *FixedError.
func (e *Entry) Fill(args []byte, root strictjson.Value) ([]byte, error) {
	for name := range root.Members() {
		folded := strictjson.Fold(string(name.Bytes()))
		for i := range e.Arguments {
			if e.Arguments[i].folded == folded {
				return nil, &FixedError{string(name.Bytes())}
			}
		}
	}
	full := bytes.TrimSpace(bytes.TrimSuffix(bytes.TrimSpace(args), []byte("}")))
	full = append(make([]byte, 0, len(full)+e.Arguments.Size()), full...)
	return e.Arguments.appendTo(full, root.Len() == 0), nil
}

// appendTo appends the arguments and the end of a JSON object. empty reports whether it has no members yet.
func (a Arguments) appendTo(object []byte, empty bool) []byte {
	for i := range a {
		if i > 0 || !empty {
			object = append(object, ',')
		}
		object = append(strictjson.AppendString(object, []byte(a[i].Name)), ':')
		object = append(object, a[i].Value...)
	}
	return append(object, '}')
}

// Object returns the arguments as a JSON object.
func (a Arguments) Object() []byte { return a.appendTo([]byte("{"), true) }

// Size returns the greatest length of the arguments in JSON: a byte of a name becomes at most six.
func (a Arguments) Size() (n int) {
	for i := range a {
		n += 6*len(a[i].Name) + len(a[i].Value) + len(`"":,}`)
	}
	return n
}
