package gateway

import (
	"github.com/capgate/capgate/gateway/filter"
	"github.com/capgate/capgate/gateway/filter/retry"
	"github.com/capgate/capgate/gateway/relay"
	"github.com/capgate/capgate/internal/call"
)

// Unsent tries another backend. The last one provably did not start the call, or the call may be carried out twice.
func (h *handler) Unsent(s *relay.Stream, err error) {
	t := callOf(s)
	if own, is := s.RequestValue().(*internalCall); is {
		own.unsent.Store(&err)
	}
	// Not for the caller: err names addresses.
	h.cfg.Log.Debug("call not sent", "capability", t.Info.Capability, "try", t.Attempt.Past+1, "error", err)
	h.driver.again(t, err)
}

// Again reports whether a call that its backend may have carried out is retried.
func (h *handler) Again(s *relay.Stream, a relay.Answer) bool {
	t := callOf(s)
	again := t.walk.servingOf(relayed{s}) == nil && retry.Again(&t.Call, &t.opening.retry, a)
	if again {
		t.walk.past = call.Sent
	}
	return again
}

// again starts another attempt of a call that did not start at its backend, if it may have one.
func (d *driver) again(t *callState, err error) {
	w := &t.walk
	t.Answer().Upstream = nil
	if w.at < w.list.attempt {
		d.reject(t, filter.ShuttingDown)
		return
	}
	t.opening.unsent, t.Attempt.Progress = err, w.past
	if refusal := w.list.repeat(t, err); refusal != nil {
		d.reject(t, refusal) // done also ends the attempt
		return
	}
	d.undo(t)
	w.at = w.list.attempt
	d.walk(t)
}

// undo makes the filters of an attempt release what they hold before another attempt.
func (d *driver) undo(t *callState) {
	w := &t.walk
	w.doneTo(w.list.attempt, t, filter.Result{Unsent: t.opening.unsent})
	t.opening.unsent = nil
}

// repeat returns the refusal that ends a call which did not start; nil means another attempt follows.
func repeat(t *callState, err error) *call.Refusal {
	return retry.Repeat(&t.Call, &t.opening.retry, t.walk.list.attempts, err)
}
