package strictjson

import (
	"strconv"
	"unsafe"
)

// MaxNumber is how many bytes a number may have: more than the largest double has digits.
const MaxNumber = 512

// plainNumber is how long a number without an exponent may be that is surely a double.
const plainNumber = 300

// number reads a number that a double can hold, if not in all its digits.
func (r *Reader) number() error {
	from := r.at
	i, exponent, ok := scanNumber(r.text, from)
	if !ok {
		if word := r.text[from:]; len(word) > 1 && word[0] == '-' && word[1] == 'I' {
			return ambiguous("has NaN or Infinity at byte %d, which JSON has not", from)
		}
		return notJSON(i)
	}
	r.at = i
	if i-from > MaxNumber {
		return ambiguous("has a number of more than %d digits at byte %d", MaxNumber, from)
	}
	if exponent || i-from > plainNumber {
		text := r.text[from:i]
		f, err := strconv.ParseFloat(unsafe.String(&text[0], len(text)), 64)
		if err != nil || f == 0 && !isZero(text) {
			return ambiguous("has a number at byte %d that is out of the range of a double", from)
		}
	}
	if r.inside > 0 {
		r.opts.Watch.found(r.text[from:i])
	}
	return r.keep(Number, from, i)
}

// scanNumber says where a number ends that begins at i, or where it stops being one.
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

// isZero says whether a number has no digit but 0 before its exponent.
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
