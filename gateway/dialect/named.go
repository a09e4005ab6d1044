package dialect

import (
	"bytes"
	"errors"
	"slices"

	"github.com/capgate/capgate/internal/lib/strictjson"
)

const (
	maxNamed = 8  // maximum number of artifacts that are searched for in a call's arguments
	allNamed = 64 // the limit if completeness matters
)

// Named returns the distinct ids of the artifacts in arguments; nil means none, which only costs a search.
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

// ErrNamed is the error for too many artifacts, and for ids that are too long.
var ErrNamed = errors.New("names more than 64 artifacts, or one by an id that is longer than 512 bytes")

// artifact matches the name of an id in any JSON spelling.
var artifact = strictjson.NewWatch("capability_artifact_id", nil)

// MayName reports whether any JSON parser could find an artifact in a text. It makes one pass over the text, at memory
// speed.
func MayName(text []byte) bool { return artifact.MayContain(text) }

// NamedAll is Named without missing any artifact, independently of the backend's parser: it also finds other
// spellings, and JSON inside strings. The error for an ambiguous text is a *strictjson.Error, unless no parser could
// find an artifact in it. For too many artifacts, or too long ids, it is ErrNamed.
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

// collector collects distinct ids.
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
