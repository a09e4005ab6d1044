package h2

import (
	"bytes"

	"golang.org/x/net/http2/hpack"
)

const (
	tableLimit    = 4096 // bytes of dynamic table that HTTP/2 starts with
	entryOverhead = 32   // RFC 7541 §4.1
	staticEntries = 61
)

// encoder writes header blocks of a few fixed fields and one that differs in every block, as grpc-go's encoder would:
// static entries indexed; the others literal with incremental indexing, and indexed as long as they stay in the table.
// The changing field keeps evicting the fixed ones, as it does in production.
type encoder struct {
	fixed []fixedField
	live  fifo[tableEntry] // oldest first

	inserted int // entries ever inserted; number n has index 61+inserted-n+1
	size     int
	limit    int
	resized  bool // the peer changed the limit: the next block must announce it

	timeoutAt int // number of the newest grpc-timeout entry
}

type fixedField struct {
	static byte   // index of the whole field in the static table, or 0
	coded  []byte // literal representation after its first byte's pattern
	name   byte   // index of the name in the static table, or 0
	size   int
	at     int // number of its table entry, 0 while it has none
}

type tableEntry struct {
	field int // index in fixed, or -1 for a changing field
	size  int
}

func newEncoder() *encoder { return &encoder{limit: tableLimit} }

// add declares a field and returns its index for append.
func (e *encoder) add(name, value string) int {
	f := fixedField{size: len(name) + len(value) + entryOverhead}
	f.static, f.name = staticIndex(name, value)
	if f.name == 0 {
		f.coded = appendString(f.coded, name)
	}
	f.coded = appendString(f.coded, value)
	e.fixed = append(e.fixed, f)
	return len(e.fixed) - 1
}

// staticIndex returns the index of a field in the static table, and that of its name, as grpc-go's encoder writes them;
// 0 means that the table has none.
func staticIndex(name, value string) (whole, named byte) {
	var b bytes.Buffer
	_ = hpack.NewEncoder(&b).WriteField(hpack.HeaderField{Name: name, Value: value}) // a Buffer does not fail
	if first := b.Bytes()[0]; first < 0x80 {
		return 0, first & 0x3f
	}
	whole = b.Bytes()[0] & 0x7f
	return whole, whole
}

// setLimit applies the peer's SETTINGS_HEADER_TABLE_SIZE.
func (e *encoder) setLimit(n int) {
	n = min(n, tableLimit)
	if n == e.limit {
		return
	}
	e.limit, e.resized = n, true
	e.evict(0)
}

// begin must be called before the fields of each block.
func (e *encoder) begin(dst []byte) []byte {
	if e.resized {
		e.resized = false
		dst = appendInt(dst, 0x20, 5, e.limit)
	}
	return dst
}

func (e *encoder) append(dst []byte, field int) []byte {
	f := &e.fixed[field]
	switch {
	case f.static != 0:
		return append(dst, 0x80|f.static)
	case f.at != 0:
		return appendInt(dst, 0x80, 7, e.index(f.at))
	case f.size > e.limit:
		dst = appendInt(dst, 0, 4, int(f.name))
	default:
		dst = appendInt(dst, 0x40, 6, int(f.name))
		e.insert(tableEntry{field, f.size})
		f.at = e.inserted
	}
	return append(dst, f.coded...)
}

const timeoutName = "grpc-timeout"

func (e *encoder) appendTimeout(dst []byte, value string) []byte {
	name := 0
	if e.timeoutAt > e.inserted-e.live.len() {
		name = e.index(e.timeoutAt)
	}
	size := len(timeoutName) + len(value) + entryOverhead
	if size > e.limit {
		dst = appendInt(dst, 0, 4, name)
	} else {
		dst = appendInt(dst, 0x40, 6, name)
		e.insert(tableEntry{-1, size})
		e.timeoutAt = e.inserted
	}
	if name == 0 {
		dst = appendString(dst, timeoutName)
	}
	return appendString(dst, value)
}

func (e *encoder) index(number int) int { return staticEntries + e.inserted - number + 1 }

func (e *encoder) insert(t tableEntry) {
	e.evict(t.size)
	e.live.push(t)
	e.inserted++
	e.size += t.size
}

// evict makes room for need bytes.
func (e *encoder) evict(need int) {
	for e.size+need > e.limit && e.live.len() > 0 {
		t := e.live.pop()
		e.size -= t.size
		if t.field >= 0 {
			e.fixed[t.field].at = 0
		}
	}
}

// appendInt writes an integer with a prefix of bits bits (RFC 7541 §5.1).
func appendInt(dst []byte, pattern byte, bits uint, n int) []byte {
	full := 1<<bits - 1
	if n < full {
		return append(dst, pattern|byte(n))
	}
	dst = append(dst, pattern|byte(full))
	for n -= full; n >= 128; n >>= 7 {
		dst = append(dst, 0x80|byte(n))
	}
	return append(dst, byte(n))
}

// appendString writes a string literal, Huffman-coded where that is shorter
// (RFC 7541 §5.2), as grpc-go does.
func appendString(dst []byte, s string) []byte {
	if n := int(hpack.HuffmanEncodeLength(s)); n < len(s) {
		return hpack.AppendHuffmanString(appendInt(dst, 0x80, 7, n), s)
	}
	return append(appendInt(dst, 0, 7, len(s)), s...)
}
