package strictjson

import (
	"bytes"
	"errors"
	"fmt"
	"hash/maphash"
	"slices"
	"sync"
	"unicode/utf8"
)

// MaxDepth is the deepest nesting of objects and arrays.
const MaxDepth = 100

// Error is the reason for which a text is rejected. It quotes nothing of the text.
type Error struct {
	// Ambiguous reports that readers accept the text, but disagree about its meaning.
	Ambiguous bool
	// TooMany reports that the text has more values than Options allow.
	TooMany bool
	// Depth is the number of objects and arrays that are open at the place; 0: the error is of the text as a whole.
	Depth int

	text string
	at   int // the byte that the text names; 0: none, or the first one
}

func (e *Error) Error() string { return e.text }

func ambiguous(format string, args ...any) error {
	return &Error{Ambiguous: true, text: fmt.Sprintf(format, args...)}
}

// ambiguousAt is ambiguous for a format that names a byte, and only that.
func ambiguousAt(at int, format string) error {
	return &Error{Ambiguous: true, text: fmt.Sprintf(format, at), at: at}
}

// notJSON returns the error for a text that is not JSON from a position on.
func notJSON(at int) error {
	return &Error{text: fmt.Sprintf("is not JSON from byte %d on", at), at: at}
}

func tooDeep() error { return &Error{text: fmt.Sprintf("is more than %d levels deep", MaxDepth)} }

// Options are the options of one reading. The zero value only checks the text.
type Options struct {
	// Fold also rejects names in one object that differ in case alone. Go's encoding/json takes either for the
	// other.
	Fold bool
	// Keep records the values, for Root.
	Keep bool
	// Depth is the number of objects and arrays around the innermost values that are kept; 0: all values are. A value
	// takes memory of its own, which many short ones exceed their text by.
	Depth int
	// Values is the largest number of values and names; 0: any number.
	Values int
	// Watch gets the strings under one name; may be nil.
	Watch *Watch
}

// Reader reads texts, one after the other. The zero value is ready to use. It refers to a text until the next
// one, or until Release.
type Reader struct {
	opts  Options
	text  []byte
	at    int
	count int

	open   []frame
	names  []uint64 // hashes of the names in the open objects
	folded []byte   // buffer for one folded name
	nodes  []node
	arena  []byte // strings that had to be unescaped
	inside int    // depth of the value of which Watch gets all strings; 0: no such value is open
	nested int    // how many strings with JSON enclose this text
}

// frame is an open object or array.
type frame struct {
	object bool
	names  int // index of its first name
	node   int // index of its node, if values are kept
	count  uint32
}

// Values returns the number of values and names that were read.
func (r *Reader) Values() int { return r.count }

var readers = sync.Pool{New: func() any { return new(Reader) }}

// Get returns a Reader from a pool. Release returns it.
func Get() *Reader { return readers.Get().(*Reader) }

// maxRetained bounds the buffers of a Reader in the pool.
const maxRetained = 4 << 10

// Release ends the use of the Reader and of all Values that were read with it.
func (r *Reader) Release() {
	r.text, r.opts = nil, Options{}
	if cap(r.nodes) > maxRetained || cap(r.arena) > 16*maxRetained || cap(r.names) > maxRetained ||
		cap(r.folded) > maxRetained {
		r.nodes, r.arena, r.names, r.folded = nil, nil, nil, nil
	}
	readers.Put(r)
}

// Check returns an error unless text is one JSON value.
func Check(text []byte) error {
	r := Get()
	defer r.Release()
	return r.Read(text, Options{})
}

// seed is the same for all Readers. Collisions cannot be observed outside the process.
var seed = maphash.MakeSeed()

var utf8BOM = []byte("\ufeff")

// Read reads a text, which must not change while the Reader is in use.
func (r *Reader) Read(text []byte, o Options) error {
	r.opts, r.text, r.at, r.count = o, text, 0, 0
	r.open, r.names, r.nodes, r.arena, r.inside = r.open[:0], r.names[:0], r.nodes[:0], r.arena[:0], 0
	switch {
	case bytes.HasPrefix(text, utf8BOM):
		return ambiguous("begins with a byte order mark")
	case bytes.IndexByte(text, 0) >= 0:
		return ambiguous("has a NUL byte, as in UTF-16 or UTF-32; send UTF-8")
	case !utf8.Valid(text):
		return ambiguous("is not valid UTF-8")
	case len(text) > 1<<31-1:
		return &Error{text: "is longer than 2 GiB"}
	}
	if err := r.values(); err != nil {
		return r.locate(err)
	}
	if r.space(); r.at < len(r.text) {
		return r.locate(ambiguousAt(r.at, "has more than one JSON value: the second begins at byte %d"))
	}
	return nil
}

// locate completes an error of the text: its depth and, in a text of several lines, its line.
func (r *Reader) locate(err error) error {
	var e *Error
	if errors.As(err, &e) {
		e.Depth = len(r.open)
		if before := r.text[:e.at]; bytes.IndexByte(before, '\n') >= 0 {
			e.text += fmt.Sprintf(" (line %d, column %d)", bytes.Count(before, []byte{'\n'})+1,
				e.at-bytes.LastIndexByte(before, '\n'))
		}
	}
	return err
}

// values reads one value and all values in it, without recursion.
func (r *Reader) values() error {
	for {
		r.space()
		begun, err := r.value()
		if err != nil {
			return err
		}
		if begun {
			if begun, err = r.first(); err != nil {
				return err
			} else if begun {
				continue
			}
		}
		for { // a value has ended
			if len(r.open) == 0 {
				return nil
			}
			more, err := r.next()
			if err != nil {
				return err
			}
			if more {
				break
			}
		}
	}
}

// value reads a scalar, or the beginning of an object or array.
func (r *Reader) value() (begun bool, err error) {
	if r.at == len(r.text) {
		return false, notJSON(r.at)
	}
	switch c := r.text[r.at]; c {
	case '{', '[':
		return true, r.begin(c == '{')
	case '"':
		return false, r.stringValue()
	case 't':
		return false, r.literal("true", True)
	case 'f':
		return false, r.literal("false", False)
	case 'n':
		return false, r.literal("null", Null)
	case 'N', 'I':
		return false, ambiguousAt(r.at, "has NaN or Infinity at byte %d, which JSON does not have")
	default:
		return false, r.number()
	}
}

func (r *Reader) begin(object bool) error {
	if len(r.open) == MaxDepth {
		return tooDeep()
	}
	kind := Array
	if object {
		kind = Object
	}
	f := frame{object: object, names: len(r.names), node: len(r.nodes)}
	err := r.keep(kind, r.at, r.at)
	r.open = append(r.open, f)
	r.at++
	return err
}

// first continues after the beginning of an object or array, up to its first value. It returns false if there
// is none.
func (r *Reader) first() (bool, error) {
	r.space()
	f := &r.open[len(r.open)-1]
	if r.at < len(r.text) && r.text[r.at] == closing(f.object) {
		return false, r.close()
	}
	f.count++
	if f.object {
		return true, r.name()
	}
	return true, nil
}

// next continues after a value of an object or array, up to the next one. It returns false after the last.
func (r *Reader) next() (bool, error) {
	r.space()
	f := &r.open[len(r.open)-1]
	if r.inside == len(r.open) {
		r.inside = 0 // the value under the watched name has ended
	}
	if r.at == len(r.text) {
		return false, notJSON(r.at)
	}
	switch c := r.text[r.at]; {
	case c == closing(f.object):
		return false, r.close()
	case c != ',':
		return false, notJSON(r.at)
	}
	r.at++
	r.space()
	f.count++
	if f.object {
		return true, r.name()
	}
	return true, nil
}

func closing(object bool) byte {
	if object {
		return '}'
	}
	return ']'
}

// linearLimit is up to how many names of an object are compared one by one.
const linearLimit = 16

// close ends an object or array.
func (r *Reader) close() error {
	f := r.open[len(r.open)-1]
	r.at++
	if names := r.names[f.names:]; len(names) > linearLimit {
		slices.Sort(names)
		for i := range names[1:] {
			if names[i] == names[i+1] {
				return ambiguousAt(r.at-1, "has a name twice in one object, which ends at byte %d"+r.inWhichCase())
			}
		}
	}
	r.names = r.names[:f.names]
	r.open = r.open[:len(r.open)-1]
	if r.keeps() {
		n := &r.nodes[f.node]
		n.end, n.next = f.count, uint32(len(r.nodes))
	}
	return nil
}

// inWhichCase ends the error of a name that is there twice.
func (r *Reader) inWhichCase() string {
	if r.opts.Fold {
		return ", perhaps in another case"
	}
	return ""
}

// name reads a name and its colon.
func (r *Reader) name() error {
	if r.at == len(r.text) || r.text[r.at] != '"' {
		return notJSON(r.at)
	}
	from, to, escapes, err := r.string(true)
	if err != nil {
		return err
	}
	if err := r.keepString(from, to, escapes); err != nil {
		return err
	}
	if err := r.addName(from, to, escapes); err != nil {
		return err
	}
	r.space()
	if r.at == len(r.text) || r.text[r.at] != ':' {
		return notJSON(r.at)
	}
	r.at++
	return nil
}

// addName records the name between two positions in the innermost object, and rejects a duplicate.
func (r *Reader) addName(from, to int, escapes bool) error {
	name := r.text[from:to]
	if escapes {
		r.folded = unescape(r.folded[:0], name)
		name = r.folded
	}
	if w := r.opts.Watch; w != nil && r.inside == 0 && w.Matches(name) {
		r.inside = len(r.open)
	}
	if r.opts.Fold {
		// An unescaped name is folded in place: folding never needs the bytes that it has passed.
		r.folded = appendFold(r.folded[:0], name)
		name = r.folded
	}
	h := maphash.Bytes(seed, name)
	names := r.names[r.open[len(r.open)-1].names:]
	if len(names) < linearLimit && slices.Contains(names, h) {
		return ambiguousAt(from-1, "has a name twice in one object, at byte %d"+r.inWhichCase())
	}
	r.names = append(r.names, h)
	return nil
}

func (r *Reader) stringValue() error {
	from, to, escapes, err := r.string(false)
	if err != nil {
		return err
	}
	if r.opts.Watch != nil {
		if err := r.watchString(r.text[from:to], escapes); err != nil {
			return err
		}
	}
	return r.keepString(from, to, escapes)
}

func (r *Reader) literal(word string, kind Kind) error {
	if !bytes.HasPrefix(r.text[r.at:], []byte(word)) {
		return notJSON(r.at)
	}
	r.at += len(word)
	return r.keep(kind, r.at, r.at)
}

func (r *Reader) space() {
	for r.at < len(r.text) {
		switch r.text[r.at] {
		case ' ', '\t', '\r', '\n':
			r.at++
		default:
			return
		}
	}
}
