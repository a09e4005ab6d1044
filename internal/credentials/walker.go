package credentials

import (
	"errors"
	"fmt"
)

// The errors repeat nothing of the text.
var (
	errSyntax = errors.New("is not JSON")
	errKind   = errors.New("is not a JSON object, as in {\"NAME\": \"value\"}")
	errDepth  = fmt.Errorf("is more than %d levels deep", MaxDepth)
)

// walker scans JSON (RFC 8259), which is valid UTF-8.
type walker struct {
	json []byte
	at   int
}

// end checks that no other value follows.
func (w *walker) end() error {
	if w.space(); w.at < len(w.json) {
		return errSyntax
	}
	return nil
}

func (w *walker) space() {
	for w.at < len(w.json) {
		switch w.json[w.at] {
		case ' ', '\t', '\r', '\n':
			w.at++
		default:
			return
		}
	}
}

// next returns the first byte that is not a space, without consuming it; 0 at the end.
func (w *walker) next() byte {
	if w.space(); w.at == len(w.json) {
		return 0
	}
	return w.json[w.at]
}

// take consumes one byte, which must be next.
func (w *walker) take(b byte) error {
	if w.next() != b {
		return errSyntax
	}
	w.at++
	return nil
}

// value skips one value inside depth others.
func (w *walker) value(depth int) error {
	b := w.next()
	if (b == '{' || b == '[') && depth == MaxDepth {
		return errDepth
	}
	switch {
	case b == '{':
		return w.object(depth+1, w.skip)
	case b == '[':
		return w.array(depth + 1)
	case b == '"':
		return w.skip()
	case b == '-' || '0' <= b && b <= '9':
		return w.number()
	}
	for _, word := range []string{"true", "false", "null"} {
		if rest := w.json[w.at:]; len(rest) >= len(word) && string(rest[:len(word)]) == word {
			w.at += len(word)
			return nil
		}
	}
	return errSyntax
}

// object skips an object; name is called at each of its names, and must consume it.
func (w *walker) object(depth int, name func() error) error {
	w.at++
	if w.next() == '}' {
		w.at++
		return nil
	}
	for {
		if w.next() != '"' {
			return errSyntax
		}
		if err := name(); err != nil {
			return err
		}
		if err := w.take(':'); err != nil {
			return err
		}
		if err := w.value(depth); err != nil {
			return err
		}
		if w.next() != ',' {
			return w.take('}')
		}
		w.at++
	}
}

// array skips an array.
func (w *walker) array(depth int) error {
	w.at++
	if w.next() == ']' {
		w.at++
		return nil
	}
	for {
		if err := w.value(depth); err != nil {
			return err
		}
		if w.next() != ',' {
			return w.take(']')
		}
		w.at++
	}
}

// digits skips one or more digits.
func (w *walker) digits() bool {
	from := w.at
	for w.at < len(w.json) && '0' <= w.json[w.at] && w.json[w.at] <= '9' {
		w.at++
	}
	return w.at > from
}

func (w *walker) number() error {
	if w.has('-') {
		w.at++
	}
	switch {
	case w.has('0'):
		w.at++
	case !w.digits():
		return errSyntax
	}
	if w.has('.') {
		if w.at++; !w.digits() {
			return errSyntax
		}
	}
	if w.has('e') || w.has('E') {
		if w.at++; w.has('+') || w.has('-') {
			w.at++
		}
		if !w.digits() {
			return errSyntax
		}
	}
	return nil
}

func (w *walker) has(b byte) bool { return w.at < len(w.json) && w.json[w.at] == b }
