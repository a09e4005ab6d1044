package strictjson

import (
	"bytes"
	"encoding/binary"
	"math/bits"
	"unicode"
	"unicode/utf8"
)

// special marks the bytes that end the fast scan of a string: the quote, a backslash, and bytes that a string
// must not have.
var special = func() (s [256]bool) {
	for c := range 0x20 {
		s[c] = true
	}
	s['"'], s['\\'] = true, true
	return s
}()

// skipPlain returns the index of the first special byte from i on, or the length of the text. It looks at eight bytes
// at once.
func skipPlain(text []byte, i int) int {
	for ; i+8 <= len(text); i += 8 {
		if found := specialIn(binary.LittleEndian.Uint64(text[i:])); found != 0 {
			return i + bits.TrailingZeros64(found)/8
		}
	}
	for i < len(text) && !special[text[i]] {
		i++
	}
	return i
}

// specialIn marks the special bytes of a word by their highest bits. The lowest mark is right; borrows can add marks
// above it.
func specialIn(w uint64) uint64 {
	const ones, high = 0x0101010101010101, 0x8080808080808080
	quote, backslash := w^('"'*ones), w^('\\'*ones)
	return ((w-0x20*ones)&^w | (quote-ones)&^quote | (backslash-ones)&^backslash) & high
}

// string reads a string, and returns its position without the quotes.
func (r *Reader) string(name bool) (from, to int, escapes bool, err error) {
	r.at++
	from = r.at
	for i := from; i < len(r.text); i++ {
		if i = skipPlain(r.text, i); i == len(r.text) {
			break
		}
		switch r.text[i] {
		case '"':
			r.at = i + 1
			return from, i, escapes, nil
		case '\\':
			escapes = true
			n, err := r.escape(i, name)
			if err != nil {
				return 0, 0, false, err
			}
			i += n - 1
		default:
			return 0, 0, false, notJSON(i)
		}
	}
	return 0, 0, false, notJSON(len(r.text))
}

// escape reads the sequence that begins with a backslash, and returns its length.
func (r *Reader) escape(at int, name bool) (int, error) {
	rest := r.text[at:]
	if len(rest) < 2 {
		return 0, notJSON(at)
	}
	switch rest[1] {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		return 2, nil
	case 'u':
	default:
		return 0, notJSON(at)
	}
	c, ok := hex4(rest)
	switch {
	case !ok:
		return 0, notJSON(at)
	case c == 0 && name:
		return 0, ambiguousAt(at, "has a NUL in a name, at byte %d")
	case c < 0xd800 || c > 0xdfff:
		return 6, nil
	}
	low, ok := hex4(rest[6:])
	if c > 0xdbff || !ok || low < 0xdc00 || low > 0xdfff {
		return 0, ambiguousAt(at, "has a lone surrogate at byte %d")
	}
	return 12, nil
}

// hex4 reads the number of \uXXXX.
func hex4(s []byte) (n rune, ok bool) {
	if len(s) < 6 || s[0] != '\\' || s[1] != 'u' {
		return 0, false
	}
	for _, c := range s[2:6] {
		switch {
		case c >= '0' && c <= '9':
			c -= '0'
		case c >= 'a' && c <= 'f':
			c -= 'a' - 10
		case c >= 'A' && c <= 'F':
			c -= 'A' - 10
		default:
			return 0, false
		}
		n = n<<4 | rune(c)
	}
	return n, true
}

// unescape appends the text of a valid string.
func unescape(to, s []byte) []byte {
	for i := 0; i < len(s); i++ {
		c := s[i]
		if c != '\\' {
			to = append(to, c)
			continue
		}
		i++
		switch c = s[i]; c {
		case 'b':
			c = '\b'
		case 'f':
			c = '\f'
		case 'n':
			c = '\n'
		case 'r':
			c = '\r'
		case 't':
			c = '\t'
		case 'u':
			n, _ := hex4(s[i-1:])
			i += 4
			if n >= 0xd800 && n <= 0xdbff {
				low, _ := hex4(s[i+1:])
				n = (n-0xd800)<<10 | (low - 0xdc00) + 0x10000
				i += 6
			}
			to = utf8.AppendRune(to, n)
			continue
		}
		to = append(to, c)
	}
	return to
}

// AppendString appends a text as a JSON string. Bytes that are not UTF-8 become U+FFFD.
func AppendString(to, text []byte) []byte {
	return append(AppendEscaped(append(to, '"'), text), '"')
}

// AppendEscaped appends a part of a text as a part of a JSON string, which the caller puts between quotes.
func AppendEscaped(to, text []byte) []byte {
	const hex = "0123456789abcdef"
	if !utf8.Valid(text) {
		text = bytes.ToValidUTF8(text, []byte(string(utf8.RuneError)))
	}
	for {
		n := skipPlain(text, 0)
		if to = append(to, text[:n]...); n == len(text) {
			return to
		}
		switch c := text[n]; c {
		case '"', '\\':
			to = append(to, '\\', c)
		case '\n':
			to = append(to, '\\', 'n')
		case '\r':
			to = append(to, '\\', 'r')
		case '\t':
			to = append(to, '\\', 't')
		default:
			to = append(to, '\\', 'u', '0', '0', hex[c>>4], hex[c&0xf])
		}
		text = text[n+1:]
	}
}

// Fold returns a name as readers see it that ignore case: as encoding/json folds, by Unicode's simple folding.
func Fold(name string) string { return string(appendFold(nil, []byte(name))) }

func appendFold(to, name []byte) []byte {
	for i := 0; i < len(name); {
		c := name[i]
		if c < utf8.RuneSelf {
			if c >= 'a' && c <= 'z' {
				c -= 'a' - 'A'
			}
			to = append(to, c)
			i++
			continue
		}
		r, n := utf8.DecodeRune(name[i:])
		to = utf8.AppendRune(to, foldRune(r))
		i += n
	}
	return to
}

// foldRune returns the smallest of the runes that differ from r in case alone.
func foldRune(r rune) rune {
	for {
		next := unicode.SimpleFold(r)
		if next <= r {
			return next
		}
		r = next
	}
}
