package approvals

import (
	"sync/atomic"

	"github.com/capgate/capgate/internal/call"
)

// Stats count the work of this replica. All but Waiting only grow.
type Stats struct {
	Asked    int64            // approvals created
	Granted  int64            // calls that ran because of an answer for their session
	Approved int64            // answers
	Denied   int64            // answers
	Used     int64            // approvals redeemed by calls
	Released int64            // approvals released by calls
	Expired  int64            // approvals found to have expired
	Refused  map[string]int64 // calls, by a bounded set of reasons
	Waiting  int64            // calls that wait for an answer
}

// reasons are the reasons of refused calls.
var reasons = [...]string{ //nolint:gochecknoglobals // a constant, if Go had such
	"APPROVALS_UNAVAILABLE", "APPROVALS_FULL", "ARGUMENTS_INVALID", "AMBIGUOUS_ARGUMENTS", "CONFIG_INVALID",
	"APPROVAL_UNKNOWN", "APPROVAL_PENDING", "APPROVAL_DENIED",
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

// Stats returns the current counters.
func (k *Service) Stats() Stats {
	c := &k.counters
	s := Stats{
		Asked: c.asked.Load(), Granted: c.granted.Load(), Approved: c.approved.Load(), Denied: c.denied.Load(),
		Used:     c.used.Load(),
		Released: c.released.Load(), Expired: k.store.Expired(), Refused: map[string]int64{}, Waiting: k.waiting.Load(),
	}
	for i, reason := range reasons {
		s.Refused[reason] = c.refused[i].Load()
	}
	return s
}
