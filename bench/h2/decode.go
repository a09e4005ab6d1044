package h2

import (
	"errors"

	"golang.org/x/net/http2/hpack"
)

// Headers is what is kept of a header block.
type Headers struct {
	Path        string
	Status      string // HTTP
	GRPCStatus  string
	GRPCMessage string
}

var (
	errBlock    = errors.New("h2: malformed header block")
	errTooLarge = errors.New("h2: header table larger than allowed")
)

// field says which of the kept fields a name is.
type field uint8

const (
	other field = iota
	path
	status
	grpcStatus
	grpcMessage
)

func fieldNamed(name []byte) field {
	switch string(name) {
	case ":path":
		return path
	case ":status":
		return status
	case "grpc-status":
		return grpcStatus
	case "grpc-message":
		return grpcMessage
	}
	return other
}

func (h *Headers) set(f field, value string) {
	switch f {
	case path:
		h.Path = value
	case status:
		h.Status = value
	case grpcStatus:
		h.GRPCStatus = value
	case grpcMessage:
		h.GRPCMessage = value
	}
}

// decoder reads header blocks of any encoder. Of fields that nobody asks for it
// keeps only the sizes, which the dynamic table needs.
type decoder struct {
	table fifo[decodedEntry] // oldest first
	size  int
	limit int

	scratch []byte
	known   map[string]string  // interned values
	cache   map[string]Headers // blocks seen since the table last changed
}

type decodedEntry struct {
	field   field
	nameLen int
	value   string // of kept fields
	size    int
}

func newDecoder() *decoder {
	return &decoder{limit: tableLimit, known: map[string]string{}, cache: map[string]Headers{}}
}

const (
	maxKnown  = 1024 // interned values
	maxCached = 64   // cached blocks, and the longest of them in bytes
)

// decode reads one complete block.
func (d *decoder) decode(b []byte) (Headers, error) {
	if h, ok := d.cache[string(b)]; ok {
		return h, nil
	}
	var h Headers
	block, changed, err := b, false, error(nil)
	for len(b) > 0 && err == nil {
		switch c := b[0]; {
		case c >= 0x80:
			b, err = d.indexed(b, &h)
		case c >= 0x40:
			b, err = d.literal(b, 6, &h)
			changed = true
		case c >= 0x20:
			b, err = d.resize(b)
			changed = true
		default:
			b, err = d.literal(b, 4, &h)
		}
	}
	if err != nil {
		return h, err
	}
	if changed {
		if len(d.cache) > 0 {
			clear(d.cache)
		}
	} else if len(block) <= maxCached && len(d.cache) < maxCached {
		d.cache[string(block)] = h
	}
	return h, nil
}

func (d *decoder) indexed(b []byte, h *Headers) ([]byte, error) {
	i, b, err := readInt(b, 7)
	if err != nil || i == 0 {
		return nil, errBlock
	}
	e, ok := d.entry(i)
	if !ok {
		return nil, errBlock
	}
	h.set(e.field, e.value)
	return b, nil
}

// literal reads a field with a prefix of bits bits; 6 is the kind that is indexed.
func (d *decoder) literal(b []byte, bits uint, h *Headers) ([]byte, error) {
	i, b, err := readInt(b, bits)
	if err != nil {
		return nil, err
	}
	var e decodedEntry
	if i > 0 {
		named, ok := d.entry(i)
		if !ok {
			return nil, errBlock
		}
		e.field, e.nameLen = named.field, named.nameLen
	} else {
		var name []byte
		if name, b, err = d.readString(b); err != nil {
			return nil, err
		}
		e.field, e.nameLen = fieldNamed(name), len(name)
	}
	value, b, err := d.readString(b)
	if err != nil {
		return nil, err
	}
	if e.field != other {
		e.value = d.intern(value)
		h.set(e.field, e.value)
	}
	if bits == 6 {
		e.size = e.nameLen + len(value) + entryOverhead
		d.insert(e)
	}
	return b, nil
}

func (d *decoder) resize(b []byte) ([]byte, error) {
	n, b, err := readInt(b, 5)
	if err != nil {
		return nil, err
	}
	if n > tableLimit {
		return nil, errTooLarge
	}
	d.limit = n
	d.evict(0)
	return b, nil
}

func (d *decoder) entry(i int) (decodedEntry, bool) {
	if i <= staticEntries {
		s := staticTable[i]
		return decodedEntry{field: kept(i), nameLen: len(s.name), value: s.value}, true
	}
	at := d.table.len() - (i - staticEntries)
	if at < 0 {
		return decodedEntry{}, false
	}
	return d.table.at(at), true
}

func (d *decoder) insert(e decodedEntry) {
	d.evict(e.size)
	if e.size > d.limit {
		return
	}
	d.table.push(e)
	d.size += e.size
}

func (d *decoder) evict(need int) {
	for d.size+need > d.limit && d.table.len() > 0 {
		d.size -= d.table.pop().size
	}
}

func (d *decoder) intern(b []byte) string {
	if s, ok := d.known[string(b)]; ok {
		return s
	}
	s := string(b)
	if len(d.known) < maxKnown {
		d.known[s] = s
	}
	return s
}

// readString returns a string literal; it is valid until the next call.
func (d *decoder) readString(b []byte) (s, rest []byte, err error) {
	if len(b) == 0 {
		return nil, nil, errBlock
	}
	huffman := b[0]&0x80 != 0
	n, b, err := readInt(b, 7)
	if err != nil || n > len(b) {
		return nil, nil, errBlock
	}
	if !huffman {
		return b[:n], b[n:], nil
	}
	d.scratch = d.scratch[:0]
	if _, err := hpack.HuffmanDecode(d, b[:n]); err != nil {
		return nil, nil, err
	}
	return d.scratch, b[n:], nil
}

// Write takes what a Huffman code decodes to.
func (d *decoder) Write(p []byte) (int, error) {
	d.scratch = append(d.scratch, p...)
	return len(p), nil
}

// readInt reads an integer with a prefix of bits bits (RFC 7541 §5.1).
func readInt(b []byte, bits uint) (int, []byte, error) {
	if len(b) == 0 {
		return 0, nil, errBlock
	}
	full := 1<<bits - 1
	n := int(b[0]) & full
	b = b[1:]
	if n < full {
		return n, b, nil
	}
	for shift := uint(0); shift < 28 && len(b) > 0; shift += 7 {
		c := b[0]
		b = b[1:]
		n += int(c&0x7f) << shift
		if c < 0x80 {
			return n, b, nil
		}
	}
	return 0, nil, errBlock
}
