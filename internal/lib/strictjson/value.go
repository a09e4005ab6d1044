package strictjson

import (
	"encoding/json"
	"fmt"
	"iter"
)

// Kind is what a value is.
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

// node is a value or a name. Those in an object or array follow it; in an object each name
// is followed by its value.
type node struct {
	kind  Kind
	arena bool   // start and end are places in the arena
	start uint32 // of its text, of a string without the quotes
	end   uint32 // of its text; of an object or array how many values it has
	next  uint32 // the node after all that is in it
}

// keep takes a value, if they are kept.
func (r *Reader) keep(kind Kind, from, to int) error {
	if r.count++; r.opts.Values > 0 && r.count > r.opts.Values {
		return &Error{TooMany: true, text: fmt.Sprintf("has more than %d values", r.opts.Values)}
	}
	if r.opts.Keep {
		r.nodes = append(r.nodes, node{kind: kind, start: uint32(from), end: uint32(to), next: uint32(len(r.nodes) + 1)})
	}
	return nil
}

func (r *Reader) keepString(from, to int, escapes bool) error {
	if !escapes || !r.opts.Keep {
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

// Value is a value of the text that a Reader has read with Keep. It is good until the Reader
// reads again or is released.
type Value struct {
	r  *Reader
	at uint32
}

// Root is the value that the text is.
func (r *Reader) Root() Value { return Value{r, 0} }

func (v Value) node() *node { return &v.r.nodes[v.at] }

// Kind is what the value is.
func (v Value) Kind() Kind { return v.node().kind }

// Index is the place of the value in the text, among all values and names.
func (v Value) Index() int { return int(v.at) }

// Len is how many values an object or array has.
func (v Value) Len() int { return int(v.node().end) }

// Bytes are what a string says, or the text of a number. They are not the caller's.
func (v Value) Bytes() []byte {
	n := v.node()
	if n.arena {
		return v.r.arena[n.start:n.end]
	}
	return v.r.text[n.start:n.end]
}

// Elements are those of an array, in order.
func (v Value) Elements() iter.Seq2[int, Value] {
	return func(yield func(int, Value) bool) {
		i := 0
		for at := v.at + 1; at < v.node().next; at = v.r.nodes[at].next {
			if !yield(i, Value{v.r, at}) {
				return
			}
			i++
		}
	}
}

// Members are those of an object, in order, each name with its value.
func (v Value) Members() iter.Seq2[Value, Value] {
	return func(yield func(Value, Value) bool) {
		for at := v.at + 1; at < v.node().next; at = v.r.nodes[at+1].next {
			if !yield(Value{v.r, at}, Value{v.r, at + 1}) {
				return
			}
		}
	}
}

// Get is the member of an object that has a name.
func (v Value) Get(name string) (Value, bool) {
	for n, member := range v.Members() {
		if string(n.Bytes()) == name {
			return member, true
		}
	}
	return Value{}, false
}

// Any is the value as encoding/json has it, with numbers as json.Number. It owns its memory.
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
