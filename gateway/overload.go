package gateway

import (
	"sync/atomic"
	"time"

	"github.com/capgate/capgate/gateway/filter"
	"github.com/capgate/capgate/internal/overload"
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

// Admit implements filter.Filter.
func (d *shedding) Admit(t *filter.Call, s *overloadState) filter.Step {
	if d.by == nil {
		return filter.Continue
	}
	who := t.Info.Tenant
	if t.Principal.Settings == nil {
		who = "" // there is nobody else
	}
	var verdict overload.Verdict
	s.share, verdict = d.by.Admit(who)
	if verdict == overload.Admitted {
		return filter.Continue
	}
	t.Shed = true
	if verdict == overload.Heavy {
		return t.Reject(filter.OverFairShare)
	}
	return t.Reject(filter.Overloaded)
}

// Done implements filter.Filter.
func (*shedding) Done(_ *filter.Call, s *overloadState, _ *filter.Result) {
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
