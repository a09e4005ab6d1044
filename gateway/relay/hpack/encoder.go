package hpack

// restartAfter is the number of popular fields that are sent as literals because the table was full, before the table
// is restarted. At worst the fields of one table are sent again for as many literals.
const restartAfter = 256

// Encoder encodes the header blocks of one connection. Popular fields enter its dynamic table as long as there is
// room, and none is evicted: when too many find no room, the whole table is emptied and filled with the currently
// popular fields.
type Encoder struct {
	table  sent
	used   int // sum of the sizes of its fields (RFC 7541 §4.1)
	misses int // popular fields without room since the table was started

	max    int // size of the table that the peer has been sent
	next   int // size for the next block
	lowest int // minimum of max and next since the last block
}

// NewEncoder returns an Encoder for a peer that has not yet sent its settings.
func NewEncoder() *Encoder {
	return &Encoder{max: maxSent, next: maxSent, lowest: maxSent}
}

// SetMaxTable sets the peer's SETTINGS_HEADER_TABLE_SIZE, starting with the next Begin.
func (e *Encoder) SetMaxTable(n uint32) {
	e.next = int(min(n, maxSent))
	e.lowest = min(e.lowest, e.next)
}

// Begin must be called before the first field of each block. It appends the changes of the table for the peer. Every
// block that was begun must be sent, in order.
func (e *Encoder) Begin(dst []byte) []byte {
	if e.lowest != e.max || e.next != e.max || e.misses >= restartAfter {
		dst = e.resize(dst)
	}
	return dst
}

// resize appends one or two size updates (RFC 7541 §4.2): the lowest size since the last block, if it was below both
// the old one and the new, and the new one. If the table has fields, the first of two is 0: lower than needed, but
// some decoders (x/net, and therefore grpc-go) reject a second update unless the first has emptied the table.
func (e *Encoder) resize(dst []byte) []byte {
	twice := e.lowest < e.max && e.lowest < e.next
	if e.used > 0 && (twice || e.used > e.lowest || e.misses >= restartAfter) {
		e.clear()
		e.lowest = 0
	}
	if e.lowest < e.max && e.lowest < e.next {
		dst = appendInt(dst, kindSizeUpdate, maskSizeUpdate, uint32(e.lowest))
		e.max = e.lowest
	}
	if e.next != e.max {
		dst = appendInt(dst, kindSizeUpdate, maskSizeUpdate, uint32(e.next))
		e.max = e.next
	}
	e.lowest = e.next
	return dst
}

func (e *Encoder) clear() {
	e.table.clear()
	e.used, e.misses = 0, 0
}

// Encode appends one field.
func (e *Encoder) Encode(dst []byte, f *Field) []byte {
	in := f.in
	if in == nil || f.Sensitive || f.changed(in) {
		return appendLiteral(dst, f)
	}
	if in.static != 0 {
		return append(dst, kindIndexed|in.static)
	}
	if n := len(e.table.fields); n > 0 {
		if i := e.table.find(in); i >= 0 {
			return appendInt(dst, kindIndexed, maskIndexed, uint32(staticLen+n-i))
		}
	}
	return e.insert(dst, in)
}

// EncodeString appends a field of the caller that is not secret. It finds fields of the static table; to have others
// indexed, prepare them with Interner.Intern and use Encode.
func (e *Encoder) EncodeString(dst []byte, name, value string) []byte {
	first := staticName(name)
	if i := staticField(first, name, value); i != 0 {
		return append(dst, kindIndexed|i)
	}
	return appendField(dst, kindWithout, maskLiteral, first, name, value)
}

// insert appends in as a literal and, if there is room, adds it to the table.
func (e *Encoder) insert(dst []byte, in *interned) []byte {
	if in.size > e.max-e.used {
		if in.size <= e.max {
			e.misses++
		}
		return appendField(dst, kindWithout, maskLiteral, in.field.nameIndex, in.field.Name, in.field.Value)
	}
	e.table.add(in)
	e.used += in.size
	return appendField(dst, kindIncremental, maskIncremental, in.field.nameIndex, in.field.Name, in.field.Value)
}

// appendLiteral appends a field that is not added to the table.
func appendLiteral(dst []byte, f *Field) []byte {
	kind := byte(kindWithout)
	if f.Sensitive {
		kind = kindNever
	}
	nameIndex := f.nameIndex
	if nameIndex != 0 && staticTable[nameIndex].name != f.Name {
		nameIndex = 0 // the caller has changed the name
	}
	return appendField(dst, kind, maskLiteral, nameIndex, f.Name, f.Value)
}

func appendField(dst []byte, kind, mask, nameIndex byte, name, value string) []byte {
	dst = appendInt(dst, kind, mask, uint32(nameIndex))
	if nameIndex == 0 {
		dst = appendString(dst, name)
	}
	return appendString(dst, value)
}
