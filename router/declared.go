package router

import (
	"slices"

	"github.com/capgate/capgate/internal/call"
)

// declared are the tools of a fleet of which the configuration says something.
type declared struct {
	all   bool
	tools []string // sorted
}

func newDeclared(tools []string) declared {
	d := declared{all: slices.Contains(tools, "*"), tools: slices.Clone(tools)}
	slices.Sort(d.tools)
	return d
}

func (d *declared) names(tool string) bool {
	_, named := slices.BinarySearch(d.tools, tool)
	return named
}

// Idempotent says whether a call may be made at a second backend although the first
// may have carried it out: a call of a tool that the configuration says so of, and
// where it says so of all ("*") every call but an upload, of which each makes a file.
func (f *Fleet) Idempotent(m call.Method, tool string) bool {
	switch m {
	case call.UploadInputArtifact:
		return false
	case call.Invoke, call.StreamInvoke:
		if f.idempotent.names(tool) {
			return true
		}
	}
	return f.idempotent.all
}

// EventSource says whether a tool may be called by GET, as browsers do. It is false for no fleet.
func (f *Fleet) EventSource(tool string) bool {
	return f != nil && (f.eventSource.all || f.eventSource.names(tool))
}

// Protocol are the settings of what the fleet's backends speak, where that is not Selu's; nil: it is.
func (f *Fleet) Protocol() any { return f.cfg.Protocol }

// Keyed says whether idempotency keys of calls by gRPC are for the gateway.
func (f *Fleet) Keyed() bool { return f.cfg.Keyed }
