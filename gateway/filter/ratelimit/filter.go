package ratelimit

import (
	"github.com/capgate/capgate/gateway/filter"
	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/lib/fairshare"
	"github.com/capgate/capgate/internal/ratelimit"
	"github.com/capgate/capgate/internal/tenant"
)

// Limiter hands out permits of tenants' limits, as *ratelimit.Limiter does.
type Limiter interface {
	// Take fills in a permit, or refuses the call. Not known without a refusal means that the call has to Wait and to
	// take again. It must not block, and keeps no string of the call.
	Take(of *tenant.Settings, c *call.Call, shard uint32, p *ratelimit.Permit) (refusal *call.Refusal, known bool)
	// Wait calls resume from another goroutine, a tenth of a second later at most.
	Wait(p *ratelimit.Permit, resume func())
	// Refund has a call of today count for no limit. It must not block, and keeps no string of the call.
	Refund(of *tenant.Settings, c *call.Call)
	// Release gives a permit back.
	Release(shard uint32, p *ratelimit.Permit)
}

// State is what a call has of its tenant's limits.
type State struct {
	Permit ratelimit.Permit
	kept   *filter.Peeked // the fields of the message while the call waits; nil means Call.Peeked has them
}

// Filter takes what each call needs of its tenant's limits.
type Filter struct {
	limiter Limiter
	memory  *fairshare.Pool
}

// New returns a Filter. Messages of calls that wait are charged to memory. A nil limiter limits nothing.
func New(limiter Limiter, memory *fairshare.Pool) *Filter { return &Filter{limiter, memory} }

// Admit implements filter.Filter.
func (f *Filter) Admit(c *filter.Call, s *State) filter.Step {
	if f.limiter == nil {
		return filter.Continue
	}
	if s.kept != nil {
		c.Peeked, s.kept = s.kept, nil // authorize copies what it has to keep
	}
	refusal, known := f.limiter.Take(c.Principal.Settings, &c.Info, uint32(c.Stream.Shard()), &s.Permit)
	switch {
	case refusal != nil:
		return c.Reject(refusal)
	case !known:
		return f.wait(c, s)
	}
	if limit, would := s.Permit.Shadowed(); would {
		c.Shadowed = limit.String()
	}
	return filter.Continue
}

// wait lets a call wait until it is known what its tenant has left. Its message does not wait in the relay: the fields
// that matter are kept.
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
		c.Peeked = nil // the call still needs it
	}
	p := c.Park("")
	f.limiter.Wait(&s.Permit, func() {
		p.ResumeOr(func() { s.kept = m }, m.Forget)
	})
	return filter.Wait
}

// Done implements filter.Filter. A call that has used up the approval of an earlier call counts no second time: that
// one has counted. Both count if the approval is given back, as the call did not start, and if the call passed
// midnight, as the next day's calls are counted anew.
func (f *Filter) Done(c *filter.Call, s *State, r *filter.Result) {
	_, shadowed := s.Permit.Shadowed()
	f.Release(c, s)
	if f.limiter == nil || !c.Decision.Repeats || shadowed || c.Attempt.Progress == call.NotSent {
		return
	}
	if began := r.Started.UTC(); began.Day() == began.Add(r.Ended).Day() {
		f.limiter.Refund(c.Principal.Settings, &c.Info)
	}
}

// Release gives back what a call has of its tenant's limits.
func (f *Filter) Release(c *filter.Call, s *State) {
	if f.limiter != nil {
		f.limiter.Release(uint32(c.Stream.Shard()), &s.Permit)
	}
}
