package strictjson

import (
	"bytes"
	"encoding/json"
	"fmt"
	"iter"
)

// Kind is the kind of a value.
type Kind uint8

// The kinds.
const (
	Null Kind = iota
	False
	True
	Number
	String
	Array
	Object
)

// node is a value or a name. The nodes in an object or array follow it. In an object, each name is followed by
// its value.
type node struct {
	kind  Kind
	arena bool   // start and end are positions in the arena
	start uint32 // start of the text, of a string without the quotes
	end   uint32 // end of the text; of an object or array the number of its values
	next  uint32 // index of the node after all nested ones
}

// keep records a value, if values are kept.
func (r *Reader) keep(kind Kind, from, to int) error {
	if r.count++; r.opts.Values > 0 && r.count > r.opts.Values {
		return &Error{TooMany: true, text: fmt.Sprintf("has more than %d values", r.opts.Values)}
	}
	if r.keeps() {
		r.nodes = append(r.nodes, node{kind: kind, start: uint32(from), end: uint32(to),
			next: uint32(len(r.nodes) + 1)})
	}
	return nil
}

// keeps reports whether values in the open objects and arrays are kept.
func (r *Reader) keeps() bool {
	return r.opts.Keep && (r.opts.Depth == 0 || len(r.open) <= r.opts.Depth)
}

func (r *Reader) keepString(from, to int, escapes bool) error {
	if !escapes || !r.keeps() {
		return r.keep(String, from, to)
	}
	start := len(r.arena)
	r.arena = unescape(r.arena, r.text[from:to])
	err := r.keep(String, start, len(r.arena))
	if err == nil {
		r.nodes[len(r.nodes)-1].arena = true
	}
	return err
}

// Value is a value that a Reader has read with Keep. It is valid until the Reader reads again or is released.
type Value struct {
	r  *Reader
	at uint32
}

// Root returns the outermost value of the text.
func (r *Reader) Root() Value { return Value{r, 0} }

func (v Value) node() *node { return &v.r.nodes[v.at] }

// Kind returns the kind of the value.
func (v Value) Kind() Kind { return v.node().kind }

// Index returns the position of the value among all values and names of the text.
func (v Value) Index() int { return int(v.at) }

// Count returns the number of values and names in the value, and the value itself.
func (v Value) Count() int { return int(v.node().next - v.at) }

// Len returns the number of values in an object or array; 0 for other kinds.
func (v Value) Len() int {
	if n := v.node(); n.kind == Object || n.kind == Array {
		return int(n.end)
	}
	return 0
}

// Bytes returns the content of a string, or the text of a number; nil for other kinds. The caller must not keep it.
func (v Value) Bytes() []byte {
	n := v.node()
	switch {
	case n.kind != String && n.kind != Number:
		return nil
	case n.arena:
		return v.r.arena[n.start:n.end]
	}
	return v.r.text[n.start:n.end]
}

// Elements iterates over an array. Other kinds have no elements.
func (v Value) Elements() iter.Seq2[int, Value] {
	return func(yield func(int, Value) bool) {
		if v.Kind() != Array {
			return
		}
		i := 0
		for at := v.at + 1; at < v.node().next; at = v.r.nodes[at].next {
			if !yield(i, Value{v.r, at}) {
				return
			}
			i++
		}
	}
}

// Members iterates over the names and values of an object. Other kinds have no members.
func (v Value) Members() iter.Seq2[Value, Value] {
	return func(yield func(Value, Value) bool) {
		if v.Kind() != Object {
			return
		}
		for at := v.at + 1; at < v.node().next; at = v.r.nodes[at+1].next {
			if !yield(Value{v.r, at}, Value{v.r, at + 1}) {
				return
			}
		}
	}
}

// Get returns the member of an object with a name.
func (v Value) Get(name string) (Value, bool) {
	for n, member := range v.Members() {
		if string(n.Bytes()) == name {
			return member, true
		}
	}
	return Value{}, false
}

// Any returns the value as encoding/json has it, with numbers as json.Number. The result owns its memory.
func (v Value) Any() any {
	switch v.Kind() {
	case Null:
		return nil
	case False, True:
		return v.Kind() == True
	case Number:
		return json.Number(v.Bytes())
	case String:
		return string(v.Bytes())
	case Array:
		array := make([]any, 0, v.Len())
		for _, e := range v.Elements() {
			array = append(array, e.Any())
		}
		return array
	case Object:
	}
	object := make(map[string]any, v.Len())
	for name, member := range v.Members() {
		object[string(name.Bytes())] = member.Any()
	}
	return object
}

// AppendTo appends the text of the value, a string with the escapes of AppendString.
func (v Value) AppendTo(to []byte) []byte {
	switch v.Kind() {
	case Null:
		return append(to, "null"...)
	case False:
		return append(to, "false"...)
	case True:
		return append(to, "true"...)
	case Number:
		return append(to, v.Bytes()...)
	case String:
		return AppendString(to, v.Bytes())
	case Array, Object:
	}
	return append(to, v.Raw()...)
}

// Raw returns the text of an object or array, a part of what was read; nil for other kinds.
func (v Value) Raw() []byte {
	if v.Kind() != Object && v.Kind() != Array {
		return nil
	}
	text, depth := v.r.text, 0
	start := int(v.node().start)
	for i := start; i < len(text); i++ {
		switch text[i] {
		case '{', '[':
			depth++
		case '}', ']':
			if depth--; depth == 0 {
				return text[start : i+1]
			}
		case '"':
			i = endOfString(text, i)
		}
	}
	return nil
}

// endOfString returns the position of the quote that ends the string that begins at i. It has an even number of
// backslashes before it.
func endOfString(text []byte, i int) int {
	for {
		i += 1 + bytes.IndexByte(text[i+1:], '"')
		backslashes := 0
		for text[i-1-backslashes] == '\\' {
			backslashes++
		}
		if backslashes%2 == 0 {
			return i
		}
	}
}
