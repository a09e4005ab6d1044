package strictjson

import (
	"bytes"
	"strings"
	"unicode/utf8"
)

// Watch finds the strings and numbers under one name, anywhere in a text and in JSON that is a string of it.
// Readers are assumed to ignore case in the name.
type Watch struct {
	folded []byte
	anchor int // position in the name of a byte without case
	found  func(value []byte)
}

// NewWatch returns a Watch that passes every string and number under the name to found, which must not keep it.
// The name is ASCII and has an underscore. It has neither K nor S, because these fold to letters outside ASCII.
func NewWatch(name string, found func(value []byte)) *Watch {
	return &Watch{folded: appendFold(nil, []byte(name)), anchor: strings.IndexByte(name, '_'), found: found}
}

// WithFunc returns the same Watch with another function.
func (w *Watch) WithFunc(found func(value []byte)) *Watch { return &Watch{w.folded, w.anchor, found} }

// Scan reads a text that need not be JSON. An error of a text that is not JSON matters only if a reader could
// find the name in it.
func (w *Watch) Scan(text []byte) error {
	if !mayHoldJSON(text) {
		return nil
	}
	r := Get()
	defer r.Release()
	r.opts.Watch = w
	return r.readNested(text)
}

// Matches reports whether name is the watched name.
func (w *Watch) Matches(name []byte) bool {
	if len(name) != len(w.folded) {
		return false
	}
	for i, c := range name {
		if c >= 'a' && c <= 'z' {
			c -= 'a' - 'A'
		}
		if c != w.folded[i] {
			return false
		}
	}
	return true
}

// maxNested is the maximum number of levels of strings with JSON that are searched.
const maxNested = 4

// watchString passes on a string, and searches it if it is JSON itself.
func (r *Reader) watchString(s []byte, escapes bool) error {
	if r.inside == 0 && !mayHoldJSON(s) && !(escapes && mayHoldEscapedJSON(s)) {
		return nil
	}
	if escapes {
		s = unescape(nil, s)
	}
	if r.inside > 0 {
		r.opts.Watch.found(s)
	}
	if !mayHoldJSON(s) {
		return nil
	}
	return r.readNested(s)
}

// mayHoldJSON reports whether a text could be JSON with a name in it.
func mayHoldJSON(s []byte) bool {
	s = bytes.TrimLeft(s, " \t\r\n")
	return len(s) > 1 && (s[0] == '{' || s[0] == '[' || s[0] == '"')
}

// mayHoldEscapedJSON is mayHoldJSON for a text that has to be unescaped first.
func mayHoldEscapedJSON(s []byte) bool {
	s = bytes.TrimLeft(s, " ")
	return len(s) > 1 && s[0] == '\\'
}

// readNested reads a string that may be JSON. An error of a string that is not JSON matters only if a reader
// could find the name in it.
func (r *Reader) readNested(text []byte) error {
	deeper := Get()
	defer deeper.Release()
	deeper.nested = r.nested + 1
	defer func() { deeper.nested = 0 }()
	err := tooDeep()
	if deeper.nested <= maxNested {
		err = deeper.Read(text, Options{Watch: r.opts.Watch})
	}
	if err == nil || !r.opts.Watch.containsName(text) && !r.opts.Watch.containsName(decodeEscapes(text)) {
		return nil
	}
	return ambiguous("has a string with JSON that not every reader understands alike: it %v", err)
}

// decodeEscapes returns a text, JSON or not, with its escapes replaced by letters, as often as readers of strings in
// strings may.
func decodeEscapes(text []byte) []byte {
	if !bytes.Contains(text, []byte("u00")) {
		return text
	}
	out := make([]byte, 0, len(text))
	for _, c := range text {
		out = append(out, c)
		for begin := len(out) - 6; begin >= 0; begin = len(out) - 6 { // the letter may end another escape
			letter, ok := hex4(out[begin:])
			if !ok || letter >= utf8.RuneSelf {
				break
			}
			out = append(bytes.TrimRight(out[:begin], `\`), byte(letter))
		}
	}
	return out
}

// MayContain reports whether a reader could find the name in a text, which need not be strict. It is false only
// if no JSON in UTF-8, UTF-16 or UTF-32 with these bytes has the name.
func (w *Watch) MayContain(text []byte) bool {
	return bytes.IndexByte(text, '\\') >= 0 || bytes.IndexByte(text, 0) >= 0 || bytes.HasPrefix(text, utf8BOM) ||
		w.containsName(text)
}

// containsName reports whether the name is in a text letter by letter.
func (w *Watch) containsName(text []byte) bool {
	for from := 0; ; {
		at := bytes.IndexByte(text[from:], w.folded[w.anchor])
		if at < 0 {
			return false
		}
		at += from
		if begin := at - w.anchor; begin >= 0 && begin+len(w.folded) <= len(text) &&
			w.Matches(text[begin:begin+len(w.folded)]) {
			return true
		}
		from = at + 1
	}
}
