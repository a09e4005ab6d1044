package hpack

// Sizes of a lastLiteral's representation, in bytes. A shorter one is decoded as fast as it is compared and copied. A
// Huffman code is at most 8/5 times as long when it is decoded.
const (
	minLast = 16
	maxLast = 1024
)

// lastLiteral is a field that a peer has sent without an index, in the Huffman code. Clients of nghttp2 never index
// paths and credentials, and send the same in each request. Decoding one takes about twenty times as long as a
// comparison and a copy. A Decoder keeps two: the last one whose name has an even index, such as :path, and the last
// one with an odd one, such as authorization. The name must not depend on the dynamic table.
type lastLiteral struct {
	coded []byte // the whole representation; empty means none
	text  []byte // the name and the value
	name  int    // length of the name
	field Field  // without its strings
}

// begins reports whether p begins with the representation.
func (l *lastLiteral) begins(p []byte) bool {
	n := len(l.coded)
	return n > 0 && len(p) >= n && string(p[:n]) == string(l.coded)
}

// append appends the field to dst, and returns what is left of the list's maximum size.
func (l *lastLiteral) append(dst *List, left int) int {
	if left -= len(l.text) + fieldOverhead; left < 0 {
		return left
	}
	f, text := l.field, dst.keep(view(l.text))
	f.Name, f.Value = text[:l.name], text[l.name:]
	dst.Fields = append(dst.Fields, f)
	return left
}

// keepLast replaces a lastLiteral.
func (d *Decoder) keepLast(at uint32, coded []byte, f *Field) {
	l := d.last[at]
	if l == nil {
		l = new(lastLiteral)
		d.last[at] = l
	}
	l.coded = append(l.coded[:0], coded...)
	l.text = append(append(l.text[:0], f.Name...), f.Value...)
	l.name, l.field = len(f.Name), Field{Tag: f.Tag, Sensitive: f.Sensitive, nameIndex: f.nameIndex}
}

// Kept returns the bytes that the Decoder holds beside its table.
func (d *Decoder) Kept() (n int) {
	for _, l := range d.last {
		if l != nil {
			n += cap(l.coded) + cap(l.text)
		}
	}
	return n
}

// Forget drops what Kept counts.
func (d *Decoder) Forget() { d.last = [2]*lastLiteral{} }
