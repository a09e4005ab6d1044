package ratelimit

import (
	"github.com/capgate/capgate/gateway/filter"
	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/lib/fairshare"
	"github.com/capgate/capgate/internal/ratelimit"
	"github.com/capgate/capgate/internal/tenant"
)

// Limiter issues permits under tenants' limits. *ratelimit.Limiter implements it.
type Limiter interface {
	// Take fills in a permit, or refuses the call. If known is false without a refusal, the call must Wait and take
	// again. Take must not block, and keeps no string of the call.
	Take(of *tenant.Settings, c *call.Call, shard uint32, p *ratelimit.Permit) (refusal *call.Refusal, known bool)
	// Wait calls resume from another goroutine, after at most 100 ms.
	Wait(p *ratelimit.Permit, resume func())
	// Refund removes a call from all limits of today. It must not block, and keeps no string of the call.
	Refund(of *tenant.Settings, c *call.Call)
	// Release returns a permit.
	Release(shard uint32, p *ratelimit.Permit)
}

// State is a call's state of its tenant's limits.
type State struct{ Permit ratelimit.Permit }

// wait holds a copy of the peeked fields of a call that waits.
type wait struct{ kept *filter.Peeked }

// Filter takes permits under tenants' limits.
type Filter struct {
	limiter Limiter
	memory  *fairshare.Pool
}

// New returns a Filter. Messages of waiting calls are charged to memory. If limiter is nil, there are no limits.
func New(limiter Limiter, memory *fairshare.Pool) *Filter { return &Filter{limiter, memory} }

// Admit implements filter.Filter.
func (f *Filter) Admit(c *filter.Call, s *State) filter.Step {
	if f.limiter == nil {
		return filter.Continue
	}
	if w, ok := c.Waits.(wait); ok {
		c.Peeked, c.Waits = w.kept, nil // authorize makes its own copy
	}
	refusal, known := f.limiter.Take(c.Principal.Settings, &c.Info, uint32(c.Stream.Shard()), &s.Permit)
	switch {
	case refusal != nil:
		return c.Reject(refusal)
	case !known:
		return f.wait(c, s)
	}
	return filter.Continue
}

// wait makes a call wait until its tenant's limits are known. The message is released, and a copy of the peeked fields
// is kept.
func (f *Filter) wait(c *filter.Call, s *State) filter.Step {
	m := c.Peeked
	if m == nil || m.Held == nil {
		fields := c.Fields()
		held := filter.NewHold(c, f.memory, fields.Size())
		if held == nil {
			return c.Reject(c.OutOfMemory())
		}
		fields = fields.Clone()
		fields.Held = held
		m = &fields
	} else {
		c.Peeked = nil // the copy is still needed
	}
	p := c.Park("")
	f.limiter.Wait(&s.Permit, func() {
		p.ResumeOr(func() { c.Waits = wait{m} }, m.Forget)
	})
	return filter.Wait
}

// Done implements filter.Filter. A call that redeemed the approval of an earlier call is not counted again, because
// the earlier call was counted. Both count if the approval is released because the call did not start, and if the call
// passed midnight, when quotas restart.
func (f *Filter) Done(c *filter.Call, s *State, r *filter.Result) {
	limit, shadowed := s.Permit.Shadowed()
	if shadowed {
		c.Shadow(limit)
	}
	f.Release(c, s)
	if f.limiter == nil || !c.Decision.Repeats || shadowed || c.Attempt.Progress == call.NotSent {
		return
	}
	if began := r.Started.UTC(); began.Day() == began.Add(r.Ended).Day() {
		f.limiter.Refund(c.Principal.Settings, &c.Info)
	}
}

// Release returns what a call holds of its tenant's limits.
func (f *Filter) Release(c *filter.Call, s *State) {
	if f.limiter != nil {
		f.limiter.Release(uint32(c.Stream.Shard()), &s.Permit)
	}
}
