package hpack

import "math"

// maxContinuation is the maximum number of octets after an integer's prefix: enough for 32 bits. More are rejected
// even if they only add zeros (RFC 7541 §5.1 lets implementations set the limit).
const maxContinuation = 5

// readInt reads an integer whose prefix has the low bits of p[0] set in mask, and returns the remaining bytes. p must
// not be empty.
func readInt(p []byte, mask byte) (n uint32, rest []byte, err error) {
	n = uint32(p[0] & mask)
	if byte(n) != mask {
		return n, p[1:], nil
	}
	return readContinuation(p[1:], n)
}

func readContinuation(p []byte, prefix uint32) (uint32, []byte, error) {
	n := uint64(prefix)
	for i := 0; i < maxContinuation; i++ {
		if i == len(p) {
			return 0, nil, ErrTruncated
		}
		n += uint64(p[i]&0x7f) << (7 * i)
		if p[i] < 0x80 {
			if n > math.MaxUint32 {
				return 0, nil, ErrInteger
			}
			return uint32(n), p[i+1:], nil
		}
	}
	return 0, nil, ErrInteger
}

// appendInt appends n with the prefix given by mask. The first octet also has the bits of kind.
func appendInt(dst []byte, kind, mask byte, n uint32) []byte {
	if n < uint32(mask) {
		return append(dst, kind|byte(n))
	}
	dst = append(dst, kind|mask)
	n -= uint32(mask)
	for n >= 0x80 {
		dst = append(dst, byte(n)|0x80)
		n >>= 7
	}
	return append(dst, byte(n))
}
