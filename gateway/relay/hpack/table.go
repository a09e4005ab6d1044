package hpack

// Minimum sizes of a table.
const (
	minEntries = 8   // entries; a power of two
	minBytes   = 256 // bytes
)

// entry is a field in a decoder's dynamic table. Its bytes are in table.buf until it is interned; then in is set.
type entry struct {
	in        *interned
	off       uint32 // of the name in table.buf; the value follows
	nameLen   uint32
	valueLen  uint32
	nameIndex uint8 // static entry of the same name, or 0
}

func (e *entry) bytes() int { return int(e.nameLen) + int(e.valueLen) }
func (e *entry) size() int  { return e.bytes() + fieldOverhead }

// table is a decoder's dynamic table (RFC 7541 §2.3.2): a ring of entries, and one buffer to which the bytes of new
// entries are appended. Entries are removed in order, so unused bytes are mostly at the front of the buffer; when the
// buffer is full, the used bytes are moved there.
type table struct {
	max  int // RFC 7541 §4.2
	used int // sum of the entries' sizes

	ring []entry // its length is a power of two
	head uint32  // oldest entry
	n    uint32  // entries

	buf  []byte
	live int // bytes of buf that belong to entries that are not interned
}

// at returns the i-th newest entry, i < n.
func (t *table) at(i uint32) *entry {
	return &t.ring[(t.head+t.n-1-i)&uint32(len(t.ring)-1)]
}

func (t *table) name(e *entry) []byte { return t.buf[e.off:][:e.nameLen] }

func (t *table) value(e *entry) []byte { return t.buf[e.off+e.nameLen:][:e.valueLen] }

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
		e := &t.ring[t.head&uint32(len(t.ring)-1)]
		t.used -= e.size()
		if e.in == nil {
			t.live -= e.bytes()
		}
		e.in = nil // must not keep it alive
		t.head++
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
	n := size - fieldOverhead
	if len(t.buf)+n > cap(t.buf) {
		t.makeRoom(n)
	}
	e := &t.ring[(t.head+t.n)&uint32(len(t.ring)-1)]
	*e = entry{off: uint32(len(t.buf)), nameLen: uint32(len(name)), valueLen: uint32(len(value)), nameIndex: nameIndex}
	t.n++
	t.buf = append(append(t.buf, name...), value...)
	t.live += n
	t.used += size
}

func (t *table) growRing() {
	ring := make([]entry, max(minEntries, 2*len(t.ring)))
	for i := range t.n {
		ring[i] = t.ring[(t.head+i)&uint32(len(t.ring)-1)]
	}
	t.ring, t.head = ring, 0
}

// makeRoom makes room for n more bytes in buf. At least half of buf is free afterwards, so the cost of moving bytes is
// amortized; and as live+n <= max, buf never exceeds twice the table's limit.
func (t *table) makeRoom(n int) {
	to := t.buf[:0]
	if need := 2 * (t.live + n); need > cap(t.buf) {
		to = make([]byte, 0, max(minBytes, need, min(2*cap(t.buf), 2*t.max)))
	}
	from := t.buf
	for i := range t.n {
		e := &t.ring[(t.head+i)&uint32(len(t.ring)-1)]
		if e.in != nil {
			continue
		}
		off := uint32(len(to))
		to = append(to, from[e.off:][:e.bytes()]...) // to never overtakes from
		e.off = off
	}
	t.buf = to
}
