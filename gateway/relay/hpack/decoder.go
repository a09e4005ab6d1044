package hpack

import "errors"

// ErrListTooLong is returned for a block whose fields are more than the list may
// hold. The block was coded rightly and the Decoder can go on: only the stream
// that it came on is to be refused. All other errors of a Decoder end the
// connection (COMPRESSION_ERROR, RFC 9113 §4.3): the Decoder must not be used
// after them.
var ErrListTooLong = errors.New("hpack: header list too long")

// Errors of header blocks.
var (
	ErrTruncated = errors.New("hpack: header block ends inside a field")
	ErrInteger   = errors.New("hpack: integer too large or too long")                             // RFC 7541 §5.1
	ErrHuffman   = errors.New("hpack: invalid Huffman code")                                      // RFC 7541 §5.2
	ErrIndex     = errors.New("hpack: index of no table entry")                                   // RFC 7541 §2.3.3
	ErrTableSize = errors.New("hpack: dynamic table size update forbidden, too large or missing") // RFC 7541 §4.2, §6.3
)

// How the first octet of a representation tells its kind (RFC 7541 §6).
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
	limit uint32 // the largest table that the peer may ask for
	owed  bool   // the peer has to begin its next block with a size update
}

// NewDecoder makes a Decoder for a peer that was told, or assumes, that its
// dynamic table may have maxTable bytes (SETTINGS_HEADER_TABLE_SIZE; 4096 unless
// we said otherwise).
func NewDecoder(in *Interner, maxTable uint32) *Decoder {
	return &Decoder{in: in, limit: maxTable, table: table{max: int(maxTable)}}
}

// SetMaxTable changes SETTINGS_HEADER_TABLE_SIZE. Call it when the setting is sent
// if n is larger than before, because the peer may use it at once; if it is
// smaller, when the peer has acknowledged it, because blocks on their way still
// follow the old one. The peer's next block then has to begin with an update.
func (d *Decoder) SetMaxTable(n uint32) {
	d.limit = n
	d.owed = d.table.max > int(n)
}

// Decode appends the fields of one whole header block to dst. maxList is the
// largest size of the block's fields together, each counting 32 beyond its name
// and value (SETTINGS_MAX_HEADER_LIST_SIZE, RFC 9113 §6.5.2); with ErrListTooLong
// dst has the fields before the one that passed it. dst keeps nothing of block.
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

// sizeUpdates carries out the updates that block begins with, the only place where
// they are allowed, and returns the rest.
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

// indexed adds the field that index refers to (RFC 7541 §6.1).
func (d *Decoder) indexed(index uint32, dst *List, left int) (int, error) {
	var in *interned
	if index-1 < staticLen {
		in = &d.in.static[index]
	} else {
		index -= staticLen + 1 // index 0 becomes one that no table has
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

// promote interns e: being referred to for the first time, it is popular.
func (d *Decoder) promote(e *entry) bool {
	in := d.in.intern(view(d.table.name(e)), view(d.table.value(e)))
	if in == nil {
		return false
	}
	d.table.setInterned(e, in)
	return true
}

// copied adds e, which is too long for the Interner.
func (d *Decoder) copied(e *entry, dst *List, left int) int {
	left -= e.size()
	if left < 0 {
		return left
	}
	f := Field{nameIndex: e.nameIndex}
	f.Name = dst.keep(view(d.table.name(e)))
	f.Value = dst.keep(view(d.table.value(e)))
	f.Tag = d.in.classify(f.Name, f.Value)
	dst.Fields = append(dst.Fields, f)
	return left
}

// literal adds the literal field that p begins with (RFC 7541 §6.2).
func (d *Decoder) literal(p []byte, dst *List, left int) ([]byte, int, error) {
	mask := byte(maskLiteral)
	switch {
	case p[0]&kindIncremental != 0:
		mask = maskIncremental
	case p[0]&kindSizeUpdate != 0:
		return nil, left, ErrTableSize // not at the beginning
	}
	f := Field{Sensitive: p[0]&^maskLiteral == kindNever}
	index, p, err := readInt(p, mask)
	if err != nil {
		return nil, left, err
	}
	before := len(dst.arena)
	if index == 0 {
		f.Name, p, err = readString(p, dst)
	} else {
		err = d.nameOf(index, dst, &f)
	}
	if err == nil {
		f.Value, p, err = readString(p, dst)
	}
	if err != nil {
		return nil, left, err
	}
	// The strings are in dst by now: adding may evict the entry that gave the name.
	if mask == maskIncremental {
		d.table.add(f.Name, f.Value, f.nameIndex)
	}
	if left -= fieldSize(f.Name, f.Value); left < 0 {
		dst.arena = dst.arena[:before]
		return p, left, nil
	}
	// Asking the Interner for the literal would cost more than it saves: what is
	// popular comes as an index in all calls but one until it is evicted.
	f.Tag = d.in.classify(f.Name, f.Value)
	dst.Fields = append(dst.Fields, f)
	return p, left, nil
}

// nameOf gives f the name that index refers to.
func (d *Decoder) nameOf(index uint32, dst *List, f *Field) error {
	if index <= staticLen { // the caller has ruled out 0
		f.Name = staticTable[index].name
		f.nameIndex = d.in.static[index].field.nameIndex
		return nil
	}
	index -= staticLen + 1
	if index >= d.table.n {
		return ErrIndex
	}
	e := d.table.at(index)
	f.nameIndex = e.nameIndex
	if e.in != nil {
		f.Name = e.in.field.Name
		return nil
	}
	f.Name = dst.keep(view(d.table.name(e)))
	return nil
}
