package hpack

import "errors"

// ErrListTooLong is returned for a block whose fields exceed the limit of the list. The encoding is valid and the
// Decoder can continue: only the stream of the block must be refused. All other errors of a Decoder end the connection
// (COMPRESSION_ERROR, RFC 9113 §4.3), and the Decoder must not be used after them.
var ErrListTooLong = errors.New("hpack: header list too long")

// Errors of header blocks.
var (
	ErrTruncated = errors.New("hpack: header block ends inside a field")
	ErrInteger   = errors.New("hpack: integer too large or too long") // RFC 7541 §5.1
	ErrHuffman   = errors.New("hpack: invalid Huffman code")          // RFC 7541 §5.2
	ErrIndex     = errors.New("hpack: index of no table entry")       // RFC 7541 §2.3.3
	// ErrTableSize has its rules in RFC 7541 §4.2 and §6.3.
	ErrTableSize = errors.New("hpack: dynamic table size update forbidden, too large or missing")
)

// First octet of each kind of representation (RFC 7541 §6).
const (
	kindIndexed     = 0x80 // 1xxxxxxx
	kindIncremental = 0x40 // 01xxxxxx
	kindSizeUpdate  = 0x20 // 001xxxxx
	kindNever       = 0x10 // 0001xxxx
	kindWithout     = 0x00 // 0000xxxx

	maskIndexed     = 0x7f
	maskIncremental = 0x3f
	maskSizeUpdate  = 0x1f
	maskLiteral     = 0x0f // never indexed, without indexing
	maskString      = 0x7f
	huffmanBit      = 0x80
)

// Decoder decodes the header blocks of one connection.
type Decoder struct {
	in    *Interner
	table table
	limit uint32 // maximum size of the table that the peer may request
	owed  bool   // the peer must start its next block with a size update
	last  [2]*lastLiteral
}

// NewDecoder returns a Decoder for a peer whose dynamic table may have maxTable bytes (SETTINGS_HEADER_TABLE_SIZE;
// default 4096). It is at most 64 KiB.
func NewDecoder(in *Interner, maxTable uint32) *Decoder {
	maxTable = min(maxTable, maxTableSize)
	return &Decoder{in: in, limit: maxTable, table: table{max: int(maxTable)}}
}

// SetMaxTable changes SETTINGS_HEADER_TABLE_SIZE. If n is larger than before, it must be called when the setting is
// sent, because the peer may use it at once; if it is smaller, when the peer has acknowledged it, because blocks in
// flight still follow the old one. The peer's next block must then start with an update. n is at most 64 KiB.
func (d *Decoder) SetMaxTable(n uint32) {
	n = min(n, maxTableSize)
	d.limit = n
	d.owed = d.table.max > int(n)
}

// Decode appends the fields of one complete header block to dst. maxList is the maximum size of the block's fields
// together, each counting 32 beyond its name and value (SETTINGS_MAX_HEADER_LIST_SIZE, RFC 9113 §6.5.2); with
// ErrListTooLong, dst has the fields before the one that exceeded it. dst does not refer to block.
func (d *Decoder) Decode(block []byte, dst *List, maxList int) error {
	block, err := d.sizeUpdates(block)
	if err != nil {
		return err
	}
	left := maxList // once below zero it stays there, and nothing more is stored
	for len(block) > 0 {
		if block[0]&kindIndexed == 0 {
			if block, left, err = d.literal(block, dst, left); err != nil {
				return err
			}
			continue
		}
		index := uint32(block[0] & maskIndexed)
		block = block[1:]
		if index == maskIndexed {
			if index, block, err = readContinuation(block, index); err != nil {
				return err
			}
		}
		if left, err = d.indexed(index, dst, left); err != nil {
			return err
		}
	}
	if left < 0 {
		return ErrListTooLong
	}
	return nil
}

// sizeUpdates applies the updates at the start of block, the only place where they are allowed, and returns the rest.
func (d *Decoder) sizeUpdates(block []byte) ([]byte, error) {
	for len(block) > 0 && block[0]&^maskSizeUpdate == kindSizeUpdate {
		n, rest, err := readInt(block, maskSizeUpdate)
		if err != nil {
			return nil, err
		}
		if n > d.limit {
			return nil, ErrTableSize
		}
		d.table.setMax(int(n))
		d.owed = false
		block = rest
	}
	if d.owed {
		return nil, ErrTableSize // RFC 9113 §4.3.1
	}
	return block, nil
}

// indexed appends the field that index refers to (RFC 7541 §6.1).
func (d *Decoder) indexed(index uint32, dst *List, left int) (int, error) {
	var in *interned
	if index-1 < staticLen {
		in = &d.in.static[index]
	} else {
		index -= staticLen + 1 // index 0 becomes one that is not in the table
		if index >= d.table.n {
			return left, ErrIndex
		}
		e := d.table.at(index)
		if e.in == nil && !d.promote(e) {
			return d.copied(e, dst, left), nil
		}
		in = e.in
	}
	left -= in.size
	if left >= 0 {
		dst.Fields = append(dst.Fields, in.field)
	}
	return left, nil
}

// promote interns e on its first reference, which shows that it is popular.
func (d *Decoder) promote(e *entry) bool {
	in := d.in.intern(view(d.table.name(e)), view(d.table.value(e)))
	if in == nil {
		return false
	}
	d.table.setInterned(e, in)
	return true
}

// copied appends e, which is too long for the Interner.
func (d *Decoder) copied(e *entry, dst *List, left int) int {
	left -= e.size()
	if left < 0 {
		return left
	}
	f := Field{nameIndex: d.table.nameIndex(e)}
	f.Name = dst.keep(view(d.table.name(e)))
	f.Value = dst.keep(view(d.table.value(e)))
	f.Tag = d.in.classify(f.Name, f.Value)
	dst.Fields = append(dst.Fields, f)
	return left
}

// literal appends the literal field at the start of p (RFC 7541 §6.2).
func (d *Decoder) literal(p []byte, dst *List, left int) ([]byte, int, error) {
	mask := byte(maskLiteral)
	switch {
	case p[0]&kindIncremental != 0:
		mask = maskIncremental
	case p[0]&kindSizeUpdate != 0:
		return nil, left, ErrTableSize // not at the start
	}
	f, whole := Field{Sensitive: p[0]&^maskLiteral == kindNever}, p
	index, p, err := readInt(p, mask)
	if err != nil {
		return nil, left, err
	}
	repeats := mask == maskLiteral && index <= staticLen
	if l := d.last[index%2]; repeats && l != nil && l.begins(whole) {
		return whole[len(l.coded):], l.append(dst, left), nil
	}
	before := len(dst.arena)
	if index == 0 {
		f.Name, p, err = readString(p, dst)
	} else {
		err = d.nameOf(index, dst, &f)
	}
	if err == nil {
		repeats = repeats && len(p) > 0 && p[0]&huffmanBit != 0
		f.Value, p, err = readString(p, dst)
	}
	if err != nil {
		return nil, left, err
	}
	// The strings are in dst by now: adding may evict the entry with the name.
	if mask == maskIncremental {
		d.table.add(f.Name, f.Value, f.nameIndex)
	}
	if left -= fieldSize(f.Name, f.Value); left < 0 {
		dst.arena = dst.arena[:before]
		return p, left, nil
	}
	// Looking the literal up in the Interner would cost more than it saves: a popular field is sent as an index in all
	// calls but one until it is evicted.
	f.Tag = d.in.classify(f.Name, f.Value)
	dst.Fields = append(dst.Fields, f)
	if coded := whole[:len(whole)-len(p)]; repeats && len(coded) >= minLast && len(coded) <= maxLast {
		d.keepLast(index%2, coded, &f)
	}
	return p, left, nil
}

// nameOf sets the name of f to the one that index refers to.
func (d *Decoder) nameOf(index uint32, dst *List, f *Field) error {
	if index <= staticLen { // the caller has excluded 0
		f.Name = staticTable[index].name
		f.nameIndex = d.in.static[index].field.nameIndex
		return nil
	}
	index -= staticLen + 1
	if index >= d.table.n {
		return ErrIndex
	}
	e := d.table.at(index)
	f.nameIndex = d.table.nameIndex(e)
	if e.in != nil {
		f.Name = e.in.field.Name
		return nil
	}
	f.Name = dst.keep(view(d.table.name(e)))
	return nil
}
