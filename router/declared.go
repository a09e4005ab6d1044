package router

import (
	"slices"
	"time"

	"github.com/capgate/capgate/internal/call"
)

// declared is a configured list of tools.
type declared struct {
	all   bool
	tools []string // sorted
}

func newDeclared(tools []string) declared {
	d := declared{all: slices.Contains(tools, "*"), tools: slices.Clone(tools)}
	slices.Sort(d.tools)
	return d
}

// names reports whether the list contains a tool.
func (d *declared) names(tool string) bool {
	_, named := slices.BinarySearch(d.tools, tool)
	return named
}

// Idempotent reports whether a call may be retried although the first backend may have carried it
// out: a call of a configured tool, or with "*" every call but an upload, which always makes a new
// file.
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

// EventSource reports whether a tool may be called with GET, as browsers do. It is false for a nil fleet.
func (f *Fleet) EventSource(tool string) bool {
	return f != nil && (f.eventSource.all || f.eventSource.names(tool))
}

// ApprovalWait returns how long a call waits for a person's answer if its caller sets no time. It is 0 for a nil fleet.
func (f *Fleet) ApprovalWait() time.Duration {
	if f == nil {
		return 0
	}
	return f.cfg.ApprovalWait
}

// Keyed reports whether the gateway handles the idempotency keys of gRPC calls.
func (f *Fleet) Keyed() bool { return f.cfg.Idempotency.GRPC }
