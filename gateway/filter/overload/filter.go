package overload

import (
	"sync/atomic"
	"time"

	"github.com/capgate/capgate/gateway/filter"
	"github.com/capgate/capgate/internal/overload"
)

// Shedder says which calls are too much for the process, as *overload.Shedder does.
type Shedder interface {
	// AdmitCall must not block. A call that it admits has a share until that is Done.
	AdmitCall(tenant string) (*overload.Share, overload.Verdict, overload.Limit)
}

// logLines is how many calls that were shed are logged in a second; all are counted.
const logLines = 100

// State is what is remembered of a call that was admitted.
type State struct {
	share *overload.Share // of the process; nil means none
}

// Filter sheds calls. It comes before everything that a call costs but the question who makes it: shedding has to be
// cheap.
type Filter struct {
	shedder Shedder      // nil means nothing is too much
	lines   atomic.Int64 // log lines of calls that were shed left in this second
	second  atomic.Int64 // of Unix time
}

// New returns a Filter. A nil shedder sheds nothing.
func New(shedder Shedder) *Filter { return &Filter{shedder: shedder} }

// Admit implements filter.Filter.
func (f *Filter) Admit(c *filter.Call, s *State) filter.Step {
	if f.shedder == nil {
		return filter.Continue
	}
	who := c.Info.Tenant
	if c.Principal.Settings == nil {
		who = "" // there are no other tenants
	}
	var verdict overload.Verdict
	var limit overload.Limit
	s.share, verdict, limit = f.shedder.AdmitCall(who)
	if verdict == overload.Admitted {
		return filter.Continue
	}
	c.Shed, c.ShedBy = true, limit.String()
	if verdict == overload.OverShare {
		return c.Reject(filter.OverFairShare)
	}
	return c.Reject(filter.Overloaded)
}

// Done implements filter.Filter.
func (*Filter) Done(_ *filter.Call, s *State, _ *filter.Result) {
	if s.share != nil {
		s.share.Done()
	}
}

// Quiet reports whether the log line of a call that was shed is to be left out. Calls that waited for their identity
// come later than they began.
func (f *Filter) Quiet(now time.Time) bool {
	second := now.Unix()
	if was := f.second.Load(); was < second && f.second.CompareAndSwap(was, second) {
		f.lines.Store(logLines)
	}
	return f.lines.Add(-1) < 0
}
