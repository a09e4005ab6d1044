package approvals

import (
	"sync/atomic"

	"github.com/capgate/capgate/internal/call"
)

// Stats count what this replica did. All but Waiting only grow.
type Stats struct {
	Asked    int64            // approvals made
	Granted  int64            // calls that ran because of what was answered for their session
	Approved int64            // answers
	Denied   int64            // answers
	Used     int64            // approvals that calls consumed
	Released int64            // approvals that calls gave back
	Expired  int64            // approvals found to be over
	Refused  map[string]int64 // calls, by reason, of which there are few
	Waiting  int64            // calls that wait for an answer now
}

// reasons are those of all refusals of calls.
var reasons = [...]string{ //nolint:gochecknoglobals // a constant, if Go had such
	"APPROVALS_UNAVAILABLE", "APPROVALS_FULL", "ARGUMENTS_INVALID", "AMBIGUOUS_ARGUMENTS", "CONFIG_INVALID", "APPROVAL_UNKNOWN", "APPROVAL_PENDING", "APPROVAL_DENIED",
	"APPROVAL_EXPIRED", "APPROVAL_USED", "APPROVAL_MISMATCH",
}

type counters struct {
	asked, granted, approved, denied, used, released atomic.Int64

	refused [len(reasons)]atomic.Int64
}

func (c *counters) answered(s State) {
	if s == Approved {
		c.approved.Add(1)
	} else {
		c.denied.Add(1)
	}
}

// count counts a refusal.
func (k *Service) count(r *call.Refusal) *call.Refusal {
	for i, reason := range reasons {
		if reason == r.Reason {
			k.counters.refused[i].Add(1)
		}
	}
	return r
}

// Stats may be asked at any time.
func (k *Service) Stats() Stats {
	c := &k.counters
	s := Stats{
		Asked: c.asked.Load(), Granted: c.granted.Load(), Approved: c.approved.Load(), Denied: c.denied.Load(), Used: c.used.Load(),
		Released: c.released.Load(), Expired: k.store.Expired(), Refused: map[string]int64{}, Waiting: k.waiting.Load(),
	}
	for i, reason := range reasons {
		s.Refused[reason] = c.refused[i].Load()
	}
	return s
}
