package credentials

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/capgate/capgate/internal/lib/strictjson"
)

// MaxDepth is the greatest nesting depth of objects and arrays, as in arguments.
const MaxDepth = 100

// maxListed bounds the declared names that an error lists.
const maxListed = 20

// Names are the credentials that a capability declares. They are immutable. A nil *Names accepts everything.
type Names struct {
	all     []string // sorted
	index   map[string]int
	longest int    // bytes of a name
	listed  string // for errors
}

// New returns the Names of a list. With an empty list no credential may be sent.
func New(declared []string) *Names {
	all := slices.Compact(slices.Sorted(slices.Values(declared)))
	n := &Names{all: all, index: make(map[string]int, len(all)), listed: "the capability's manifest declares none"}
	for i, name := range all {
		n.index[name] = i
		n.longest = max(n.longest, len(name))
	}
	switch more := len(all) - maxListed; {
	case more > 0:
		n.listed = fmt.Sprintf("the capability's manifest declares %s and %d more",
			strings.Join(all[:maxListed], ", "), more)
	case len(all) > 0:
		n.listed = "the capability's manifest declares " + strings.Join(all, ", ")
	}
	return n
}

// Check checks a call's config_json: it must be empty, or one JSON object with declared names only, each at most
// once. A missing credential is left to the capability. The error has declared names and the number of others, and no
// other part of the text: a secret may be in the wrong place.
func (n *Names) Check(config []byte) error {
	if n == nil {
		return nil
	}
	if !utf8.Valid(config) {
		return errors.New("is not valid UTF-8")
	}
	w := walker{json: config}
	if w.space(); w.at == len(config) {
		return nil
	}
	if w.next() == '{' {
		if err := n.object(&w); err != nil {
			return err
		}
		return strictjson.Check(config) // at any depth
	}
	if err := w.value(0); err != nil {
		return err
	}
	if err := w.end(); err != nil {
		return err
	}
	return errKind
}

// object parses an object that is the whole text, and checks its names.
func (n *Names) object(w *walker) error {
	var few [4]uint64 // a bit for each name that has occurred
	occurred := few[:]
	if words := (len(n.all) + 63) / 64; words > len(few) {
		occurred = make([]uint64, words)
	}
	others, twice := 0, -1
	var room [64]byte
	err := w.object(1, func() error {
		name, err := w.text(room[:0], n.longest)
		if err != nil {
			return err
		}
		i, declared := n.index[string(name)]
		if !declared {
			others++
			return nil
		}
		if bit := uint64(1) << (i % 64); occurred[i/64]&bit == 0 {
			occurred[i/64] |= bit
		} else {
			twice = i
		}
		return nil
	})
	if err == nil {
		err = w.end()
	}
	switch {
	case err != nil:
		return err
	case others > 0:
		return fmt.Errorf("has %d names that are not declared; %s", others, n.listed)
	case twice >= 0:
		return fmt.Errorf("has %s twice", n.all[twice])
	}
	return nil
}
