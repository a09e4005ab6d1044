package dialect

import (
	"bytes"
	"errors"
	"slices"

	"github.com/capgate/capgate/internal/lib/strictjson"
)

const (
	maxNamed = 8  // artifacts of one call's arguments that are looked for
	allNamed = 64 // that may be there where all of them count
)

// Named returns the ids of the artifacts that arguments name, each once; nil, for the price
// of one search, if they name none.
func Named(args []byte) []string {
	if !bytes.Contains(args, idName) {
		return nil
	}
	var ids []string
	ms := NewMentions(func(id string) {
		if !slices.Contains(ids, id) && len(ids) < maxNamed {
			ids = append(ids, id)
		}
	})
	ms.most = len(args)
	ms.see(args, true)
	return ids
}

// ErrNamed is the error of too many artifacts, and of ids that are too long.
var ErrNamed = errors.New("names more than 64 artifacts, or one by an id that is longer than 512 bytes")

// artifact is the name under which an id is, also where it is spelt otherwise.
var artifact = strictjson.NewWatch("capability_artifact_id", nil)

// MayName reports whether any JSON parser could find an artifact in a text. It is one pass over the text, at the
// speed of memory.
func MayName(text []byte) bool { return artifact.MayContain(text) }

// NamedAll is Named without overlooking any artifact, whatever the backend's parser: also in other spellings, and
// in JSON inside strings. An ambiguous text is a *strictjson.Error, unless no parser could find an artifact in it.
// Too many artifacts, or too long ids, are ErrNamed.
func NamedAll(text []byte) (ids []string, err error) {
	if !MayName(text) || len(bytes.TrimSpace(text)) == 0 {
		return nil, nil
	}
	c := collector{}
	r := strictjson.Get()
	defer r.Release()
	if err := r.Read(text, strictjson.Options{Watch: artifact.WithFunc(c.add)}); err != nil {
		return nil, err
	}
	return c.ids, c.err
}

// NamedInContext is NamedAll for entries of a legacy context: an id, JSON, or any other text.
func NamedInContext(entries []ContextEntry) (ids []string, err error) {
	c := collector{}
	for _, e := range entries {
		switch {
		case artifact.Matches(e.Name):
			c.add(e.Value)
		case MayName(e.Value):
			if err := artifact.WithFunc(c.add).Scan(e.Value); err != nil {
				return nil, err
			}
		}
	}
	return c.ids, c.err
}

// collector gathers ids, each once.
type collector struct {
	ids []string
	err error
}

func (c *collector) add(id []byte) {
	switch {
	case len(id) == 0:
	case len(id) > maxID:
		c.err = ErrNamed
	case slices.Contains(c.ids, string(id)):
	case len(c.ids) == allNamed:
		c.err = ErrNamed
	default:
		c.ids = append(c.ids, string(id))
	}
}
