package hpack

import "encoding/binary"

// huffmanLengths holds the length in bits of each symbol's code (RFC 7541 Appendix B); the last is EOS. The code is
// canonical, so it is determined by the lengths: codes of one length are consecutive in the order of their symbols,
// and follow the shorter codes.
var huffmanLengths = [257]uint8{
	13, 23, 28, 28, 28, 28, 28, 28, 28, 24, 30, 28, 28, 30, 28, 28, 28, 28, 28, 28, 28, 28, 30, 28, 28, 28, 28, 28, 28,
	28, 28, 28,
	6, 10, 10, 12, 13, 6, 8, 11, 10, 10, 8, 11, 8, 6, 6, 6, 5, 5, 5, 6, 6, 6, 6, 6, 6, 6, 7, 8, 15, 6, 12, 10,
	13, 6, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 8, 7, 8, 13, 19, 13, 14, 6,
	15, 5, 6, 5, 6, 5, 6, 6, 6, 5, 7, 7, 6, 6, 6, 5, 6, 7, 6, 5, 5, 6, 7, 7, 7, 7, 7, 15, 11, 14, 13, 28,
	20, 22, 20, 20, 22, 22, 22, 23, 22, 23, 23, 23, 23, 23, 24, 23, 24, 24, 22, 23, 24, 23, 23, 23, 23, 21, 22, 23, 22,
	23, 23, 24,
	22, 21, 20, 22, 22, 23, 23, 21, 23, 22, 22, 24, 21, 22, 23, 23, 21, 21, 22, 21, 23, 22, 23, 23, 20, 22, 22, 22, 23,
	22, 22, 23,
	26, 26, 20, 19, 22, 23, 22, 25, 26, 26, 26, 27, 27, 26, 24, 25, 19, 21, 26, 27, 27, 26, 27, 24, 21, 21, 26, 26, 28,
	27, 27, 27,
	20, 24, 20, 21, 22, 21, 21, 23, 22, 22, 25, 25, 24, 24, 26, 23, 26, 27, 26, 26, 27, 27, 27, 27, 27, 28, 27, 27, 27,
	27, 27, 26,
	30,
}

const (
	huffmanEOS     = 256
	huffmanMaxBits = 30
	huffmanMinBits = 5
	huffmanWindow  = 12 // bits per lookup: two of the usual symbols
)

// huffmanTables is built once from huffmanLengths and never changed: 16 KiB, of which real headers use a small part.
var huffmanTables = makeHuffmanTables()

// huffmanStep describes the start of the next huffmanWindow bits: one or two whole symbols, or 0 if the first symbol's
// code is longer. From the low bits: length of all symbols (8 bits), number of symbols (2), length of the first (6),
// the first symbol (8), the second (8).
type huffmanStep uint32

func (s huffmanStep) bits() uint      { return uint(s & 63) }
func (s huffmanStep) count() int      { return int(s >> 8 & 3) }
func (s huffmanStep) firstBits() uint { return uint(s >> 10 & 63) }

// huffmanLength describes the codes of one length.
type huffmanLength struct {
	first uint32 // the smallest code
	count uint32
	at    uint32 // start of its symbols in huffmanCoding.symbols
}

type huffmanCoding struct {
	steps   [1 << huffmanWindow]huffmanStep
	lengths [huffmanMaxBits + 1]huffmanLength
	symbols [257]uint16 // in the order of their codes
}

func makeHuffmanTables() *huffmanCoding {
	h := new(huffmanCoding)
	var codes [257]uint32
	code, at := uint32(0), uint32(0)
	for bits := 1; bits <= huffmanMaxBits; bits++ {
		code <<= 1
		l := huffmanLength{first: code, at: at}
		for sym, n := range huffmanLengths {
			if int(n) != bits {
				continue
			}
			codes[sym] = code
			h.symbols[at] = uint16(sym)
			code++
			at++
		}
		l.count = at - l.at
		h.lengths[bits] = l
	}
	short := h.symbols[:h.lengths[huffmanWindow+1].at]
	for _, a := range short {
		n := huffmanLengths[a]
		step := huffmanStep(n) | 1<<8 | huffmanStep(n)<<10 | huffmanStep(a)<<16
		h.fill(step, codes[a], uint(n))
		for _, b := range short {
			if m := n + huffmanLengths[b]; m <= huffmanWindow {
				both := huffmanStep(m) | 2<<8 | huffmanStep(n)<<10 | huffmanStep(a)<<16 | huffmanStep(b)<<24
				h.fill(both, codes[a]<<huffmanLengths[b]|codes[b], uint(m))
			}
		}
	}
	return h
}

// fill sets the steps of all windows that start with a code.
func (h *huffmanCoding) fill(s huffmanStep, code uint32, bits uint) {
	from := code << (huffmanWindow - bits)
	for i := range uint32(1) << (huffmanWindow - bits) {
		h.steps[from+i] = s
	}
}

// long decodes the first symbol of acc if its code is longer than the window.
func (h *huffmanCoding) long(acc uint64) (sym uint16, bits uint) {
	for bits = huffmanWindow + 1; bits < huffmanMaxBits; bits++ {
		l := &h.lengths[bits]
		if i := uint32(acc>>(64-bits)) - l.first; i < l.count {
			return h.symbols[l.at+i], bits
		}
	}
	l := &h.lengths[huffmanMaxBits]
	return h.symbols[l.at+uint32(acc>>(64-huffmanMaxBits))-l.first], huffmanMaxBits
}

// huffmanRoom returns the required length of huffmanDecode's dst for n bytes.
func huffmanRoom(n int) int { return n*8/huffmanMinBits + 2 }

// huffmanDecode decodes src into dst and returns the number of bytes. ok is false if src has the EOS symbol, more than
// seven bits of padding, or padding that is not the start of EOS (RFC 7541 §5.2).
func huffmanDecode(dst, src []byte) (n int, ok bool) {
	h := huffmanTables
	// The next bits are the upper ones of acc; have of them are valid. Below them may be some of the following bits,
	// so that or-ing those in changes nothing.
	var acc uint64
	var have uint
	for len(src) >= 8 {
		acc |= binary.BigEndian.Uint64(src) >> (have & 63)
		src = src[(63-have)>>3:]
		have |= 56
		// At least 56 bits: enough for four windows, or one code of any length.
		s := h.steps[acc>>(64-huffmanWindow)]
		if s == 0 {
			sym, bits := h.long(acc)
			if sym == huffmanEOS {
				return 0, false
			}
			dst[n] = byte(sym)
			n++
			acc <<= bits & 63
			have -= bits
			continue
		}
		for range 4 {
			if s == 0 {
				break
			}
			binary.LittleEndian.PutUint16(dst[n:], uint16(s>>16))
			n += s.count()
			acc <<= s.bits()
			have -= s.bits()
			s = h.steps[acc>>(64-huffmanWindow)]
		}
	}
	return h.finish(dst, n, src, acc, have)
}

// finish decodes the rest of a string: fewer than eight bytes, and acc.
func (h *huffmanCoding) finish(dst []byte, n int, src []byte, acc uint64, have uint) (int, bool) {
	for {
		for have <= 56 && len(src) > 0 {
			acc |= uint64(src[0]) << (56 - have)
			have += 8
			src = src[1:]
		}
		padded := acc | (1<<(64-have) - 1)
		if padded == 1<<64-1 {
			return n, have <= 7 // only padding is left, or else EOS
		}
		s := h.steps[padded>>(64-huffmanWindow)]
		if s != 0 && s.bits() <= have {
			binary.LittleEndian.PutUint16(dst[n:], uint16(s>>16))
			n += s.count()
			acc <<= s.bits()
			have -= s.bits()
			continue
		}
		sym, bits := uint16(s>>16&0xff), s.firstBits()
		if s == 0 {
			sym, bits = h.long(padded)
		}
		if bits > have || sym == huffmanEOS {
			return 0, false
		}
		dst[n] = byte(sym)
		n++
		acc <<= bits
		have -= bits
	}
}
