package hpack

import "strings"

// Limits of an Interner.
const (
	maxInterned      = 4096    // fields
	maxInternedBytes = 1 << 20 // names and values
	maxInternedField = 4096    // name and value of one field; longer fields are copied each time
)

// interned is a popular field, or a field of the static table. It is immutable.
type interned struct {
	field  Field  // the field for Lists; its in refers back to this interned
	size   int    // RFC 7541 §4.1
	id     uint32 // selects the Encoder's slot; not unique forever
	static uint8  // index of the equal static entry; 0 means none
}

// Interner holds popular fields, so that all connections of a shard share one copy of each. It holds at most 4096
// fields and 1 MiB of names and values; when it is full, it drops all of them and starts again, so a peer that fills
// it with garbage costs the others a lookup and a copy of each field.
type Interner struct {
	classify func(name, value string) uint32
	static   [staticLen + 1]interned
	fields   map[pair]*interned
	bytes    int
	nextID   uint32
}

// NewInterner returns an Interner. classify returns a field's Tag: it is called once for a popular field, and at each
// decoding for others. It must not retain its arguments, which may refer to reused memory, and must depend on nothing
// else. If it is nil, all Tags are 0.
func NewInterner(classify func(name, value string) uint32) *Interner {
	if classify == nil {
		classify = func(string, string) uint32 { return 0 }
	}
	in := &Interner{classify: classify, fields: make(map[pair]*interned)}
	for i := 1; i <= staticLen; i++ {
		in.fill(&in.static[i], staticTable[i].name, staticTable[i].value)
	}
	in.forget()
	return in
}

// Intern returns a field that Encoders keep in their tables. It is meant for fields that are the same in many blocks,
// which can be prepared in advance; the Field stays valid forever. Intern does not retain its arguments.
func (in *Interner) Intern(name, value string) Field {
	if f := in.intern(name, value); f != nil {
		return f.field
	}
	name, value = strings.Clone(name), strings.Clone(value)
	return Field{Name: name, Value: value, Tag: in.classify(name, value), nameIndex: staticName(name)}
}

// intern returns nil for a field that is too long. It does not retain its arguments.
func (in *Interner) intern(name, value string) *interned {
	n := len(name) + len(value)
	if n > maxInternedField {
		return nil // before hashing: a block can refer to it thousands of times
	}
	if f := in.fields[pair{name, value}]; f != nil {
		return f
	}
	if len(in.fields) >= maxInterned || in.bytes+n > maxInternedBytes {
		in.forget()
	}
	// Not name + value, which would be the other string itself, not a copy, if one is empty.
	both := view(append(append(make([]byte, 0, n), name...), value...))
	f := &interned{}
	in.fill(f, both[:len(name)], both[len(name):])
	in.fields[pair{f.field.Name, f.field.Value}] = f
	in.bytes += n
	return f
}

func (in *Interner) fill(f *interned, name, value string) {
	first := staticName(name)
	*f = interned{
		field: Field{Name: name, Value: value, Tag: in.classify(name, value), nameIndex: first, in: f},
		size:  fieldSize(name, value), id: in.nextID, static: staticField(first, name, value),
	}
	in.nextID++
}

// forget drops all fields but the static table. It keeps the map's memory, which has reached the required size.
func (in *Interner) forget() {
	clear(in.fields)
	in.bytes = 0
	for i := 1; i <= staticLen; i++ {
		f := &in.static[i]
		in.fields[staticTable[i]] = f
		in.bytes += f.size - fieldOverhead
	}
}
