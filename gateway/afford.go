package gateway

import (
	"github.com/capgate/capgate/gateway/relay"
	"github.com/capgate/capgate/internal/call"
)

// afford takes what the call needs of its tenant's limits: at once where memory knows, as it does in
// the steady state. Health checks are free, and so is what the gateway asks for itself or answers
// by itself.
func (h *handler) afford(s *relay.Stream, t *transit, m first) {
	if h.limits == nil || t.own || t.ours || t.before != nil || t.call.Method == call.Healthcheck {
		h.decide(s, t, m)
		return
	}
	refusal, known := h.limits.Take(t.settings, &t.call, uint32(s.Shard()), &t.permit)
	switch {
	case refusal != nil:
		h.refuse(s, t, refusal)
	case known:
		h.decide(s, t, m)
	default:
		h.save(s, t, m)
	}
}

// save lets a call wait, a tenth of a second at most, until it is known what its tenant has left. Its
// message does not wait in the relay: what of it matters is kept.
func (h *handler) save(s *relay.Stream, t *transit, m first) {
	held := h.deliberations.hold(t, m.size())
	if held == nil {
		h.refuse(s, t, h.deliberations.tooMany(t))
		return
	}
	kept := m.clone()
	kept.held = held
	h.await(s, t, kept)
}

// await waits with a message that is the call's own.
func (h *handler) await(s *relay.Stream, t *transit, m first) {
	parked := s.Park()
	h.limits.Wait(&t.permit, func() {
		if !parked.Resume(func(s *relay.Stream) { h.awaited(s, m) }) {
			m.forget()
		}
	})
}

// awaited is afford for a call that has waited.
func (h *handler) awaited(s *relay.Stream, m first) {
	t := transitOf(s)
	refusal, known := h.limits.Take(t.settings, &t.call, uint32(s.Shard()), &t.permit)
	switch {
	case refusal != nil:
		h.refuse(s, t, refusal)
	case known:
		h.decide(s, t, m) // which copies what it has to keep
	default:
		h.await(s, t, m)
		return
	}
	m.forget()
}

// forget lets go of what was kept of a message. Secrets are not left behind.
func (m *first) forget() {
	m.held.letGo()
	m.wipe()
}
