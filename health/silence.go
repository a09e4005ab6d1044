package health

import (
	"strings"

	"github.com/capgate/capgate/internal/lib/grpcerror"
)

// isSilent reports whether a reason says that a backend did not answer. Its process may be frozen, or its network gone:
// then the calls that it has hang as well, at every replica.
func isSilent(reason string) bool { return strings.HasSuffix(reason, grpcerror.NoAnswer) }

// heard records a backend whose failure, observed here or by another replica, is that it does not answer.
func (r *Replica) heard(ep *endpoint, reason string) {
	if isSilent(reason) {
		r.silent = append(r.silent, ep.key(Primary))
	}
}

// Silent returns the backends that did not answer a probe since its last call.
func (r *Replica) Silent() []Key {
	silent := r.silent
	r.silent = nil
	return silent
}
