package hpack

import "strings"

// Bounds of an Interner.
const (
	maxInterned      = 4096    // fields
	maxInternedBytes = 1 << 20 // names and values
	maxInternedField = 4096    // name and value of one field; longer ones are copied each time
)

// interned is a field that has proved popular, or stands in the static table. It
// is immutable.
type interned struct {
	field  Field  // as a List gets it; its in points back here
	size   int    // RFC 7541 §4.1
	id     uint32 // spreads the Encoder's slots; not unique for ever
	static uint8  // index of the static entry equal to it, or 0
}

// Interner remembers popular fields, so that all connections of a shard share one
// copy of each. It holds at most 4096 fields and 1 MiB of names and values; when it
// is full it forgets them all and starts again, so a peer that fills it with
// rubbish costs the others a lookup and a copy of each field.
type Interner struct {
	classify func(name, value string) uint32
	static   [staticLen + 1]interned
	fields   map[pair]*interned
	bytes    int
	nextID   uint32
}

// NewInterner makes an Interner. classify gives a field its Tag: once for a
// popular field, at each decoding for others. It must not keep its arguments,
// which may point into memory that is used again, and must depend on nothing
// but them. nil means that all Tags are 0.
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

// Intern returns name: value as a field that Encoders keep in their tables. It is
// meant for fields that are the same in many blocks, and for preparing them
// beforehand; the Field stays usable for ever. It does not keep its arguments.
func (in *Interner) Intern(name, value string) Field {
	if f := in.intern(name, value); f != nil {
		return f.field
	}
	name, value = strings.Clone(name), strings.Clone(value)
	return Field{Name: name, Value: value, Tag: in.classify(name, value), nameIndex: staticName(name)}
}

// intern returns nil for a field that is too long. It does not keep its arguments.
func (in *Interner) intern(name, value string) *interned {
	n := len(name) + len(value)
	if n > maxInternedField {
		return nil // before hashing it: a block can refer to it thousands of times
	}
	if f := in.fields[pair{name, value}]; f != nil {
		return f
	}
	if len(in.fields) >= maxInterned || in.bytes+n > maxInternedBytes {
		in.forget()
	}
	// Not name + value: that is the other one itself, uncopied, if one is empty.
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

// forget empties the map but for the static table. It keeps the map's memory,
// which has reached the size that it is needed at.
func (in *Interner) forget() {
	clear(in.fields)
	in.bytes = 0
	for i := 1; i <= staticLen; i++ {
		f := &in.static[i]
		in.fields[staticTable[i]] = f
		in.bytes += f.size - fieldOverhead
	}
}
