package gateway

import (
	"github.com/capgate/capgate/gateway/filter"
	"github.com/capgate/capgate/internal/tenant/limits"
)

// ratelimitState is what a call has of its tenant's limits.
type ratelimitState struct {
	permit limits.Permit
	kept   *filter.Peeked // what its message says, when it has waited; nil: that is said by Call.Peeked
}

// ratelimit takes what the call needs of its tenant's limits: at once where memory knows, as it does in
// the steady state.
type ratelimit struct{ h *handler }

// Admit implements filter.Filter.
func (f ratelimit) Admit(t *filter.Call, s *ratelimitState) filter.Step {
	if f.h.limits == nil {
		return filter.Continue
	}
	if s.kept != nil {
		t.Peeked, s.kept = s.kept, nil // authorize copies what it has to keep
	}
	refusal, known := f.h.limits.Take(t.Principal.Settings, &t.Info, uint32(t.Stream.Shard()), &s.permit)
	switch {
	case refusal != nil:
		return t.Reject(refusal)
	case known:
		if limit, would := s.permit.Shadowed(); would {
			t.Shadowed = limit.String()
		}
		return filter.Continue
	}
	return f.wait(t, s)
}

// wait lets a call wait, a tenth of a second at most, until it is known what its tenant has left. Its
// message does not wait in the relay: what of it matters is kept.
func (f ratelimit) wait(t *filter.Call, s *ratelimitState) filter.Step {
	m := t.Peeked
	if m == nil || m.Held == nil {
		said := t.Fields()
		held := filter.NewHold(t, f.h.deliberations.memory, said.Size())
		if held == nil {
			return t.Reject(t.OutOfMemory())
		}
		said = said.Clone()
		said.Held = held
		m = &said
	} else {
		t.Peeked = nil // it is not over yet
	}
	p := t.Park("")
	f.h.limits.Wait(&s.permit, func() {
		if !p.Resume(func() { s.kept = m }) {
			m.Forget()
		}
	})
	return filter.Wait
}

// Done implements filter.Filter.
func (f ratelimit) Done(t *filter.Call, s *ratelimitState, _ *filter.Result) { f.h.releasePermit(t, s) }

// releasePermit gives back what a call has of its tenant's limits.
func (h *handler) releasePermit(t *filter.Call, s *ratelimitState) {
	if h.limits != nil {
		h.limits.Release(uint32(t.Stream.Shard()), &s.permit)
	}
}
