package gateway

import "github.com/capgate/capgate/internal/tenant/limits"

// ratelimitState is what a call has of its tenant's limits.
type ratelimitState struct {
	permit limits.Permit
	kept   *first // what its message says, when it has waited; nil: that is said by transit.first
}

// ratelimit takes what the call needs of its tenant's limits: at once where memory knows, as it does in
// the steady state.
type ratelimit struct{ h *handler }

// Admit implements filter.
func (f ratelimit) Admit(t *transit, s *ratelimitState) Step {
	if f.h.limits == nil {
		return Continue
	}
	if s.kept != nil {
		t.first, s.kept = s.kept, nil // authorize copies what it has to keep
	}
	refusal, known := f.h.limits.Take(t.settings, &t.call, uint32(t.stream.Shard()), &s.permit)
	switch {
	case refusal != nil:
		return t.reject(refusal)
	case known:
		return Continue
	}
	return f.wait(t, s)
}

// wait lets a call wait, a tenth of a second at most, until it is known what its tenant has left. Its
// message does not wait in the relay: what of it matters is kept.
func (f ratelimit) wait(t *transit, s *ratelimitState) Step {
	m := t.first
	if m == nil || m.held == nil {
		said := t.said()
		held := f.h.deliberations.hold(t, said.size())
		if held == nil {
			return t.reject(f.h.deliberations.tooMany(t))
		}
		said = said.clone()
		said.held = held
		m = &said
	} else {
		t.first = nil // it is not over yet
	}
	p := f.h.driver.park(t, "")
	f.h.limits.Wait(&s.permit, func() {
		if !p.Resume(func(t *transit) { t.ratelimit.kept = m }) {
			m.forget()
		}
	})
	return Wait
}

// Done implements filter.
func (f ratelimit) Done(t *transit, s *ratelimitState, _ *result) { f.h.releasePermit(t, s) }

// releasePermit gives back what a call has of its tenant's limits.
func (h *handler) releasePermit(t *transit, s *ratelimitState) {
	if h.limits != nil {
		h.limits.Release(uint32(t.stream.Shard()), &s.permit)
	}
}

// forget lets go of what was kept of a message. Secrets are not left behind.
func (m *first) forget() {
	m.held.letGo()
	m.wipe()
}
