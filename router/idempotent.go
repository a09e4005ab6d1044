package router

import (
	"slices"

	"github.com/capgate/capgate/internal/call"
)

// idempotent is what of a fleet may be carried out twice for one call.
type idempotent struct {
	all   bool
	tools []string // sorted
}

func newIdempotent(tools []string) idempotent {
	i := idempotent{all: slices.Contains(tools, "*"), tools: slices.Clone(tools)}
	slices.Sort(i.tools)
	return i
}

// Idempotent says whether a call may be made at a second backend although the first
// may have carried it out: a call of a tool that the configuration says so of, and
// where it says so of all ("*") every call but an upload, of which each makes a file.
func (f *Fleet) Idempotent(m call.Method, tool string) bool {
	switch m {
	case call.UploadInputArtifact:
		return false
	case call.Invoke, call.StreamInvoke:
		if _, named := slices.BinarySearch(f.idempotent.tools, tool); named {
			return true
		}
	}
	return f.idempotent.all
}
