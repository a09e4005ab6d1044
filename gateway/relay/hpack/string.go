package hpack

// readString reads a string literal (RFC 7541 §5.2) into dst and returns the remaining bytes.
func readString(p []byte, dst *List) (s string, rest []byte, err error) {
	if len(p) == 0 {
		return "", nil, ErrTruncated
	}
	coded := p[0]&huffmanBit != 0
	n, p, err := readInt(p, maskString)
	if err != nil {
		return "", nil, err
	}
	if uint64(n) > uint64(len(p)) {
		return "", nil, ErrTruncated
	}
	start := len(dst.arena)
	if !coded {
		dst.arena = append(dst.arena, p[:n]...)
		return dst.since(start), p[n:], nil
	}
	dst.room(huffmanRoom(int(n)))
	size, ok := huffmanDecode(dst.arena[start:cap(dst.arena)], p[:n])
	if !ok {
		return "", nil, ErrHuffman
	}
	dst.arena = dst.arena[:start+size]
	return dst.since(start), p[n:], nil
}

// appendString appends s as a string literal. It does not use the Huffman code, which takes about twenty times as long
// as copying (BenchmarkHuffman), here and again at the peer, to save a quarter of the bytes of fields outside the
// table.
func appendString(dst []byte, s string) []byte {
	if len(s) < maskString {
		return append(append(dst, byte(len(s))), s...)
	}
	return append(appendInt(dst, 0, maskString, uint32(len(s))), s...)
}
