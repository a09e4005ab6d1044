package hpack

import (
	"slices"
	"unsafe"
)

// fieldOverhead is the size of a field beyond its name and value (RFC 7541 §4.1; RFC 9113 §6.5.2 uses the same for
// SETTINGS_MAX_HEADER_LIST_SIZE).
const fieldOverhead = 32

func fieldSize(name, value string) int { return len(name) + len(value) + fieldOverhead }

// Field is a header field. Name and Value may be changed in place: the Encoder compares them with the interned field.
type Field struct {
	Name, Value string
	Tag         uint32 // result of the Interner's classify
	Sensitive   bool   // received, and to be sent, as a literal that must not be indexed (RFC 7541 §7.1.3)
	nameIndex   uint8  // static entry of the same name; 0 means unknown or none
	in          *interned
}

// changed reports whether f's strings differ from those of in, from which it was made. It compares the addresses: an
// equal string elsewhere only costs a literal.
func (f *Field) changed(in *interned) bool {
	return unsafe.StringData(f.Value) != unsafe.StringData(in.field.Value) || len(f.Value) != len(in.field.Value) ||
		unsafe.StringData(f.Name) != unsafe.StringData(in.field.Name) || len(f.Name) != len(in.field.Name)
}

// Capacities that a List keeps when it is reset.
const (
	keepFields = 64
	keepArena  = 4096 // bytes
)

// List holds the fields of one or more header blocks, in order. The zero value is empty. Its contents stay valid until
// Reset, independently of the Decoder. It must not be copied once it is in use, because the copies would share memory.
type List struct {
	Fields []Field

	// arena holds the strings of fields that are not interned. If append moves it, the old array is kept alive by the
	// strings that refer to it.
	arena []byte
}

// Append adds a copy of name: value.
func (l *List) Append(name, value string, tag uint32) {
	first := staticName(name)
	if first != 0 {
		name = staticTable[first].name
	} else {
		name = l.keep(name)
	}
	l.Fields = append(l.Fields, Field{Name: name, Value: l.keep(value), Tag: tag, nameIndex: first})
}

// Size returns the approximate size of the list's own memory in bytes. Interned fields count little.
func (l *List) Size() int { return len(l.arena) + fieldOverhead*len(l.Fields) }

// Reset empties the list. Fields taken from it must not be used afterwards, unless they came from Interner.Intern.
func (l *List) Reset() {
	// A remaining Field would keep its strings alive.
	clear(l.Fields)
	l.Fields = l.Fields[:0]
	if cap(l.Fields) > keepFields {
		l.Fields = nil
	}
	l.arena = l.arena[:0]
	if cap(l.arena) > keepArena {
		l.arena = nil
	}
}

// keep copies s into the arena.
func (l *List) keep(s string) string {
	start := len(l.arena)
	l.arena = append(l.arena, s...)
	return l.since(start)
}

// since returns the arena's bytes from start as a string.
func (l *List) since(start int) string {
	return view(l.arena[start:])
}

// room ensures that n bytes can be added to the arena in place.
func (l *List) room(n int) {
	if cap(l.arena)-len(l.arena) < n {
		l.arena = slices.Grow(l.arena, n)
	}
}

// view returns b as a string without copying. b must not be modified while the string is in use.
func view(b []byte) string {
	return unsafe.String(unsafe.SliceData(b), len(b))
}
