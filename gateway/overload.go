package gateway

import (
	"sync/atomic"
	"time"

	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/overload"
	"github.com/capgate/capgate/internal/tenant"
)

// shedding turns calls away that are too much for the process. It comes before everything
// that a call costs but the question who makes it: being turned away has to be cheap.
type shedding struct {
	by    *overload.Shedder // nil: nothing is too much
	lines atomic.Int64      // log lines of such calls left in this second
	since atomic.Int64      // the second, of Unix time
}

// shedLines is how many calls that were turned away are logged in a second; all are counted.
const shedLines = 100

// overloadState is what is remembered of a call that was let in.
type overloadState struct {
	share *overload.Share // of the process, that the call has; nil: none
}

// Admit implements filter.
func (d *shedding) Admit(t *transit, s *overloadState) Step {
	if d.by == nil {
		return Continue
	}
	who := t.call.Tenant
	if t.settings == nil {
		who = "" // there is nobody else
	}
	var verdict overload.Verdict
	s.share, verdict = d.by.Admit(who)
	if verdict == overload.Admitted {
		return Continue
	}
	t.shed = true
	if verdict == overload.Heavy {
		return t.reject(refusedHeavy)
	}
	return t.reject(refusedFull)
}

// Done implements filter.
func (*shedding) Done(_ *transit, s *overloadState, _ *result) {
	if s.share != nil {
		s.share.Done()
	}
}

// quiet says whether the line of a call that was turned away is to be left out. Calls that
// waited until it was known who makes them come later than they began.
func (d *shedding) quiet(now time.Time) bool {
	second := now.Unix()
	if was := d.since.Load(); was < second && d.since.CompareAndSwap(was, second) {
		d.lines.Store(shedLines)
	}
	return d.lines.Add(-1) < 0
}

// tooMany is how one is turned away of whose tenant too many wait, or too much is held.
func tooMany(who tenant.Identity) *call.Refusal {
	if who.Settings == nil { // there are no others, or it is not known who that is
		return refusedFull
	}
	return refusedHeavy
}

// comeBackLater is when those may try again who were turned away.
const comeBackLater = time.Second

var (
	refusedHeavy = &call.Refusal{Kind: call.ResourceExhausted, Reason: "OVERLOADED", RetryAfter: comeBackLater,
		Message: "the gateway has more to do than it can, and this tenant more than its share of it"}
	refusedFull = &call.Refusal{Kind: call.Unavailable, Reason: "OVERLOADED", RetryAfter: comeBackLater,
		Message: "the gateway has more to do than it can"}
)
