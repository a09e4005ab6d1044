package credentials

import (
	"strconv"
	"unicode/utf16"
	"unicode/utf8"
)

// skip skips a string.
func (w *walker) skip() error {
	_, err := w.text(nil, -1)
	return err
}

// text parses a string and appends its value to keep, up to most bytes. Of a longer one it keeps so much that it
// differs from any shorter one.
func (w *walker) text(keep []byte, most int) ([]byte, error) {
	w.at++
	for w.at < len(w.json) {
		b := w.json[w.at]
		w.at++
		switch {
		case b == '"':
			return keep, nil
		case b < ' ':
			return nil, errSyntax
		case b != '\\':
			if len(keep) <= most {
				keep = append(keep, b)
			}
			continue
		}
		r, ok := w.escaped()
		if !ok {
			return nil, errSyntax
		}
		if len(keep) <= most {
			keep = utf8.AppendRune(keep, r)
		}
	}
	return nil, errSyntax
}

// escaped parses the rest of an escape sequence. Half a surrogate pair is U+FFFD.
func (w *walker) escaped() (rune, bool) {
	if w.at == len(w.json) {
		return 0, false
	}
	b := w.json[w.at]
	w.at++
	switch b {
	case '"', '\\', '/':
		return rune(b), true
	case 'b':
		return '\b', true
	case 'f':
		return '\f', true
	case 'n':
		return '\n', true
	case 'r':
		return '\r', true
	case 't':
		return '\t', true
	case 'u':
		return w.unit()
	}
	return 0, false
}

// unit parses four hexadecimal digits, and a second \u of a surrogate pair.
func (w *walker) unit() (rune, bool) {
	first, ok := w.hex()
	if !ok || !utf16.IsSurrogate(first) {
		return first, ok
	}
	from := w.at
	if w.has('\\') {
		if w.at++; w.has('u') {
			w.at++
			if second, ok := w.hex(); ok {
				if r := utf16.DecodeRune(first, second); r != utf8.RuneError {
					return r, true
				}
			}
		}
	}
	w.at = from
	return utf8.RuneError, true
}

func (w *walker) hex() (rune, bool) {
	if len(w.json)-w.at < 4 {
		return 0, false
	}
	n, err := strconv.ParseUint(string(w.json[w.at:w.at+4]), 16, 16)
	if err != nil {
		return 0, false
	}
	w.at += 4
	return rune(n), true
}
