package strictjson

import (
	"bytes"
	"strings"
	"unicode/utf8"
)

// Watch finds the strings and numbers under one name, wherever in the text, also in JSON that
// is a string of it. Readers are taken not to tell case apart in the name.
type Watch struct {
	folded []byte
	anchor int // where in the name is a byte that has no case
	found  func(value []byte)
}

// NewWatch gives every string and number that lies under the name to found, which must not
// keep it. The name is ASCII and has an underscore, but neither K nor S, which fold to
// letters that are not ASCII.
func NewWatch(name string, found func(value []byte)) *Watch {
	return &Watch{folded: appendFold(nil, []byte(name)), anchor: strings.IndexByte(name, '_'), found: found}
}

// For is the same Watch for somebody else.
func (w *Watch) For(found func(value []byte)) *Watch { return &Watch{w.folded, w.anchor, found} }

// Look reads a text that need not be JSON. Where it is not, it is of no interest, unless
// somebody could find the name in it.
func (w *Watch) Look(text []byte) error {
	if !nests(text) {
		return nil
	}
	r := Get()
	defer r.Release()
	r.opts.Watch = w
	return r.nest(text)
}

// Is says whether a name is the one.
func (w *Watch) Is(name []byte) bool {
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

// maxNested is how many strings with JSON in each other are looked into.
const maxNested = 4

// tell tells of a string, and looks into it where it is JSON itself.
func (r *Reader) tell(s []byte, escapes bool) error {
	if r.inside == 0 && !nests(s) && !(escapes && mayNest(s)) {
		return nil
	}
	if escapes {
		s = unescape(nil, s)
	}
	if r.inside > 0 {
		r.opts.Watch.found(s)
	}
	if !nests(s) {
		return nil
	}
	return r.nest(s)
}

// nests says whether a text could be JSON with a name in it.
func nests(s []byte) bool {
	s = bytes.TrimLeft(s, " \t\r\n")
	return len(s) > 1 && (s[0] == '{' || s[0] == '[' || s[0] == '"')
}

// mayNest says so of one that has to be unescaped first.
func mayNest(s []byte) bool {
	s = bytes.TrimLeft(s, " ")
	return len(s) > 1 && s[0] == '\\'
}

// nest reads a string that may be JSON. One that is none is of no interest, unless somebody
// could find the name in it.
func (r *Reader) nest(text []byte) error {
	deeper := Get()
	defer deeper.Release()
	deeper.nested = r.nested + 1
	defer func() { deeper.nested = 0 }()
	err := error(errDeep)
	if deeper.nested <= maxNested {
		err = deeper.Read(text, Options{Watch: r.opts.Watch})
	}
	if err == nil || !r.opts.Watch.spelled(text) && !r.opts.Watch.spelled(lenient(text)) {
		return nil
	}
	return ambiguous("has a string with JSON that not every reader understands alike: it %v", err)
}

// lenient is a text, JSON or not, with letters for their escapes.
func lenient(text []byte) []byte {
	var out []byte
	from := 0
	for i := 0; i+6 <= len(text); i++ {
		if c, ok := hex4(text[i:]); ok && c < utf8.RuneSelf {
			out = append(append(out, text[from:i]...), byte(c))
			i += 5
			from = i + 1
		}
	}
	return append(out, text[from:]...)
}

// Within says whether a reader could find the name in a text, which need not be strict: it
// is false only if no JSON in UTF-8, UTF-16 or UTF-32 that the text could be has the name.
func (w *Watch) Within(text []byte) bool {
	return bytes.IndexByte(text, '\\') >= 0 || bytes.IndexByte(text, 0) >= 0 || bytes.HasPrefix(text, utf8BOM) ||
		w.spelled(text)
}

// spelled says whether the name is in a text letter by letter.
func (w *Watch) spelled(text []byte) bool {
	for from := 0; ; {
		at := bytes.IndexByte(text[from:], w.folded[w.anchor])
		if at < 0 {
			return false
		}
		at += from
		if begin := at - w.anchor; begin >= 0 && begin+len(w.folded) <= len(text) && w.Is(text[begin:begin+len(w.folded)]) {
			return true
		}
		from = at + 1
	}
}
