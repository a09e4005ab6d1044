package strictjson

import (
	"strconv"
	"unsafe"
)

// MaxNumber is the largest number of bytes in a number. The largest double has fewer digits.
const MaxNumber = 512

// plainNumber is the length up to which a number without an exponent always fits a double.
const plainNumber = 300

// number reads a number within the range of a double. It may have more digits than a double holds.
func (r *Reader) number() error {
	from := r.at
	i, exponent, ok := scanNumber(r.text, from)
	if !ok {
		if word := r.text[from:]; len(word) > 1 && word[0] == '-' && word[1] == 'I' {
			return ambiguousAt(from, "has NaN or Infinity at byte %d, which JSON does not have")
		}
		return notJSON(i)
	}
	r.at = i
	if i-from > MaxNumber {
		return ambiguousAt(from, "has a number of more than "+strconv.Itoa(MaxNumber)+" digits at byte %d")
	}
	if exponent || i-from > plainNumber {
		text := r.text[from:i]
		f, err := strconv.ParseFloat(unsafe.String(&text[0], len(text)), 64)
		if err != nil || f == 0 && !isZero(text) {
			return ambiguousAt(from, "has a number at byte %d that is out of the range of a double")
		}
	}
	if r.inside > 0 {
		r.opts.Watch.found(r.text[from:i])
	}
	return r.keep(Number, from, i)
}

// scanNumber returns the end of the number that begins at i, or the position of the first wrong byte.
func scanNumber(text []byte, i int) (end int, exponent, ok bool) {
	if i < len(text) && text[i] == '-' {
		i++
	}
	switch {
	case i == len(text) || text[i] < '0' || text[i] > '9':
		return i, false, false
	case text[i] == '0':
		i++
	default:
		i = digits(text, i)
	}
	if i < len(text) && text[i] == '.' {
		from := i + 1
		if i = digits(text, from); i == from {
			return i, false, false
		}
	}
	if i < len(text) && text[i]|0x20 == 'e' {
		i++
		if i < len(text) && (text[i] == '+' || text[i] == '-') {
			i++
		}
		from := i
		if i = digits(text, from); i == from {
			return i, true, false
		}
		exponent = true
	}
	return i, exponent, true
}

func digits(text []byte, i int) int {
	for i < len(text) && text[i] >= '0' && text[i] <= '9' {
		i++
	}
	return i
}

// isZero reports whether a number has no digit but 0 before its exponent.
func isZero(number []byte) bool {
	for _, c := range number {
		if c|0x20 == 'e' {
			return true
		}
		if c >= '1' && c <= '9' {
			return false
		}
	}
	return true
}
