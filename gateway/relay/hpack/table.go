package hpack

// Minimum sizes of a table. Its buffer grows in steps of minBytes.
const (
	minEntries = 8
	minBytes   = 256
)

// maxTableSize is the maximum size of a table, for the lengths in an entry.
const maxTableSize = 64 << 10

// entry is a field in a decoder's dynamic table. Its bytes are in table.buf until it is interned; then in is set. An
// idle connection holds all entries of its table, so they are small.
type entry struct {
	in       *interned
	off      uint32 // in table.buf: one byte with the static entry of the same name, or 0; then the name and the value
	nameLen  uint16
	valueLen uint16
}

// bytes returns the number of the entry's bytes in table.buf.
func (e *entry) bytes() int { return 1 + int(e.nameLen) + int(e.valueLen) }

func (e *entry) size() int { return int(e.nameLen) + int(e.valueLen) + fieldOverhead }

// table is a decoder's dynamic table (RFC 7541 §2.3.2): a ring of entries, and one buffer to which the bytes of new
// entries are appended. Entries are removed in order, so unused bytes are mostly at the front of the buffer; when the
// buffer is full, the used bytes are moved there.
type table struct {
	max  int // RFC 7541 §4.2
	used int // sum of the entries' sizes

	ring []entry
	head uint32 // index of the oldest entry
	n    uint32 // entries

	buf  []byte
	live int // bytes of buf that belong to entries that are not interned
}

// at returns the i-th newest entry, i < n.
func (t *table) at(i uint32) *entry { return t.slot(t.n - 1 - i) }

// slot returns the place of the i-th oldest entry, i < len(t.ring).
func (t *table) slot(i uint32) *entry {
	if i += t.head; i >= uint32(len(t.ring)) {
		i -= uint32(len(t.ring))
	}
	return &t.ring[i]
}

// nameIndex returns the static entry of the same name, or 0.
func (t *table) nameIndex(e *entry) uint8 {
	if e.in != nil {
		return e.in.field.nameIndex
	}
	return t.buf[e.off]
}

// name returns the name of an entry that is not interned.
func (t *table) name(e *entry) []byte { return t.buf[e.off+1:][:e.nameLen] }

// value returns the value of an entry that is not interned.
func (t *table) value(e *entry) []byte { return t.buf[e.off+1+uint32(e.nameLen):][:e.valueLen] }

// setInterned sets e.in and frees e's bytes.
func (t *table) setInterned(e *entry, in *interned) {
	e.in = in
	t.live -= e.bytes()
}

// setMax changes the maximum size of the table.
func (t *table) setMax(n int) {
	t.max = n
	t.evict(n)
}

// evict removes the oldest entries until the table has at most size bytes.
func (t *table) evict(size int) {
	for t.used > size && t.n > 0 {
		e := t.slot(0)
		t.used -= e.size()
		if e.in == nil {
			t.live -= e.bytes()
		}
		e.in = nil // must not keep it alive
		if t.head++; int(t.head) == len(t.ring) {
			t.head = 0
		}
		t.n--
	}
}

// add inserts a field (RFC 7541 §4.4). The strings must not point into t.buf.
func (t *table) add(name, value string, nameIndex uint8) {
	size := fieldSize(name, value)
	t.evict(t.max - size)
	if size > t.max {
		return // not an error: the table is now empty
	}
	if int(t.n) == len(t.ring) {
		t.growRing()
	}
	e := t.slot(t.n)
	*e = entry{nameLen: uint16(len(name)), valueLen: uint16(len(value))}
	n := e.bytes()
	if len(t.buf)+n > cap(t.buf) {
		t.makeRoom(n)
	}
	e.off = uint32(len(t.buf))
	t.n++
	t.buf = append(append(append(t.buf, nameIndex), name...), value...)
	t.live += n
	t.used += size
}

func (t *table) growRing() {
	ring := make([]entry, max(minEntries, t.n+t.n/2))
	for i := range t.n {
		ring[i] = *t.slot(i)
	}
	t.ring, t.head = ring, 0
}

// makeRoom makes room for n more bytes in buf. At least a third of buf is free afterwards, so the cost of moving bytes
// is amortized; and as live+n <= max, buf hardly exceeds one and a half times the table's limit.
func (t *table) makeRoom(n int) {
	to := t.buf[:0]
	if need := (t.live + n) * 3 / 2; need > cap(t.buf) {
		to = make([]byte, 0, (need+minBytes-1)/minBytes*minBytes)
	}
	from := t.buf
	for i := range t.n {
		e := t.slot(i)
		if e.in != nil {
			continue
		}
		off := uint32(len(to))
		to = append(to, from[e.off:][:e.bytes()]...) // to never overtakes from
		e.off = off
	}
	t.buf = to
}
