package overload

import (
	"sync/atomic"
	"time"

	"github.com/capgate/capgate/gateway/filter"
	"github.com/capgate/capgate/internal/overload"
)

// Shedder decides which calls to shed. *overload.Shedder implements it.
type Shedder interface {
	// AdmitCall must not block. An admitted call has a share until the share's Done. last is the share of an earlier
	// call of the tenant; nil means none.
	AdmitCall(tenant string, last *overload.Share) (*overload.Share, overload.Verdict, overload.Limit)
}

// logLines is the maximum number of log lines of shed calls per second. All shed calls are counted.
const logLines = 100

// State is the state of an admitted call.
type State struct {
	share *overload.Share // of the process's capacity; nil means none
}

// Filter sheds calls. It runs before everything expensive but authentication: shedding must be cheap.
type Filter struct {
	shedder Shedder      // nil means nothing is shed
	lines   atomic.Int64 // remaining log lines of shed calls in this second
	second  atomic.Int64 // of Unix time
}

// New returns a Filter. If shedder is nil, nothing is shed.
func New(shedder Shedder) *Filter { return &Filter{shedder: shedder} }

// Admit implements filter.Filter.
func (f *Filter) Admit(c *filter.Call, s *State) filter.Step {
	if f.shedder == nil {
		return filter.Continue
	}
	verdict, limit := f.admit(c, s)
	if verdict == overload.Admitted {
		return filter.Continue
	}
	c.Shed = limit
	if verdict == overload.OverShare {
		return c.Reject(filter.OverFairShare)
	}
	return c.Reject(filter.Overloaded)
}

// admit begins a call, with the last share of its tenant if there is one.
func (f *Filter) admit(c *filter.Call, s *State) (verdict overload.Verdict, limit overload.Limit) {
	settings := c.Principal.Settings
	if settings == nil { // there are no other tenants
		s.share, verdict, limit = f.shedder.AdmitCall("", nil)
		return verdict, limit
	}
	last, _ := settings.Slots.Capacity.Load().(*overload.Share)
	s.share, verdict, limit = f.shedder.AdmitCall(c.Info.Tenant, last)
	if s.share != nil && s.share != last {
		settings.Slots.Capacity.Store(s.share)
	}
	return verdict, limit
}

// Done implements filter.Filter.
func (*Filter) Done(_ *filter.Call, s *State, _ *filter.Result) {
	if s.share != nil {
		s.share.Done()
	}
}

// Quiet reports whether the log line of a shed call is omitted. Calls that waited for authentication are logged later
// than they began.
func (f *Filter) Quiet(now time.Time) bool {
	second := now.Unix()
	if was := f.second.Load(); was < second && f.second.CompareAndSwap(was, second) {
		f.lines.Store(logLines)
	}
	return f.lines.Add(-1) < 0
}
