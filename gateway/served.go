package gateway

import (
	"context"

	"github.com/capgate/capgate/gateway/dialect"
	"github.com/capgate/capgate/gateway/filter"
	"github.com/capgate/capgate/gateway/relay"
	"github.com/capgate/capgate/gateway/status"
	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/telemetry"
)

// serving is what the driver remembers of a stream that code in the process serves, and of what continues it.
type serving struct {
	*filter.Served
	outer     *serving      // of the stream that this one continues; nil means none
	stream    filter.Stream // that is served
	row       rowIndex      // of the filter that serves it
	live      bool          // another stream continues it
	ended     *relay.Result // of the stream, where that has ended before the one that continues it
	explained string        // why the relay has ended the stream; empty means it has not
	code      uint32        // of the last stream that continued it
	reason    string        // why the gateway has rejected that one; empty means it has not
	last      *relay.Result // of the last stream at a backend; nil means there was none
}

// proceed goes on with a call on a stream that continues it.
func (h *handler) proceed(s *relay.Stream, t *callState) {
	if t.walk.over {
		h.driver.begin(h.calls.get(s), h.chain.ended)
		return
	}
	s.Value = t
	if e, ok := dialect.Lookup(s.Path()); ok {
		t.Spoken = e
	}
	h.driver.proceed(t, relayed{s})
}

// proceed goes on with a call that the code which serves it continues on another stream: after the filter that serves
// it, or with another attempt where one has ended.
func (d *driver) proceed(t *callState, s filter.Stream) {
	w, v := &t.walk, t.walk.serving
	v.live = true
	v.Continued.Store(true)
	t.Stream, *t.Answer() = s, filter.Answer{}
	if w.at = v.row + 1; w.due < w.at {
		w.at = w.list.attempt
	}
	d.walk(t)
}

// refuse returns the error by which served code refuses its call, for the reason that the call's record has.
func refuse(ctx context.Context, refusal *call.Refusal) error {
	v := filter.ServedOf(ctx)
	if v == nil {
		return status.Error(refusal, call.Answered)
	}
	v.Refused.Store(refusal)
	return status.Error(refusal, refusedAt(v))
}

// refusedAt returns the progress of a call that the code that serves it refuses.
func refusedAt(v *filter.Served) call.Progress {
	if v.Continued.Load() || v.Progress() == call.Sent {
		return call.Sent
	}
	return call.NotSent
}

// tell adds to a call what the code that served it says of it, when its stream has ended with r.
func (v *serving) tell(t *callState, r *relay.Result) {
	switch refusal := v.Refused.Load(); {
	case v.explained != "":
		t.Reason = v.explained
	case t.Reason != "":
	case refusal != nil && r.Upstream && r.Code == uint32(status.CodeOf(refusal.Kind)):
		t.Reason = refusal.Reason
		if refusal.Reason == filter.Overloaded.Reason {
			t.Shed, t.ShedBy = true, filter.ByQueue
		}
	case v.code == r.Code:
		t.Reason = v.reason
	}
	if o := telemetry.Outcome(v.Outcome.Load()); o != telemetry.NoOutcome {
		t.Outcome = o
	}
}

// merge is how a call ended whose stream has ended with r, and which had a stream at a backend: code and bytes are
// those that its caller got, and the backend's share of the time is the other's.
func (v *serving) merge(r *relay.Result) *relay.Result {
	if v.last == nil {
		return r
	}
	whole, began := *r, v.last.Started.Sub(r.Started)
	whole.Forwarded = v.last.Forwarded + began
	if whole.FirstByte = 0; v.last.FirstByte > 0 {
		whole.FirstByte = v.last.FirstByte + began
	}
	whole.Ended = max(r.Ended, v.last.Ended+began)
	if r.Code == v.last.Code && r.Failure == relay.NoFailure {
		whole.Failure = v.last.Failure
	}
	return &whole
}

// end notes that the stream has ended before the one that continues it.
func (v *serving) end(t *callState, r *relay.Result) {
	ended := *r
	v.ended, v.explained, t.Reason = &ended, t.Reason, ""
}

// leave ends the stream of a call that no other one continues any more. whole is how it has ended with what continued
// it, and atBackend the part at a backend, if there was one.
func (w *walk) leave(t *callState, r *relay.Result) (whole, atBackend *relay.Result) {
	v := w.serving
	if v == nil || v.live { // no code in the process serves it
		return r, r
	}
	w.serving = v.outer
	v.tell(t, r)
	if !v.Continued.Load() {
		w.doneTo(w.list.attempt, t, filter.Result{Result: withoutBackend(r), Final: true})
	}
	return v.merge(r), v.last
}

// continued notes that a stream has ended that continued the call. Its arguments are the results of leave.
func (v *serving) continued(t *callState, whole, atBackend *relay.Result) {
	v.live, v.code, v.reason, t.Reason = false, whole.Code, t.Reason, ""
	switch {
	case atBackend == nil:
		atBackend = withoutBackend(whole)
	case atBackend.Forwarded > 0:
		last := *atBackend // which outlives the stream: the relay uses that again
		v.last, atBackend = &last, &last
	}
	if notify := t.walk.list.rows[v.row].continued; notify != nil {
		notify(t, atBackend)
	}
}

// withoutBackend returns the result of a call that no backend got.
func withoutBackend(r *relay.Result) *relay.Result {
	return &relay.Result{Code: r.Code, Started: r.Started, Ended: r.Ended}
}

// servingOf is what serves a stream of the call in the process; nil means nothing does.
func (w *walk) servingOf(s filter.Stream) *serving {
	v := w.serving
	for v != nil && v.stream != s {
		v = v.outer
	}
	return v
}

// progress returns how far a call has come that the relay ends by its stream s. If the answer is NotSent, the driver
// keeps the call from every backend: code that serves it may not know yet that it is over.
func (w *walk) progress(t *callState, s *relay.Stream) call.Progress {
	switch v := w.servingOf(relayed{s}); {
	case v == nil && !s.Sent():
		return w.past
	case v == nil:
		return t.Attempt.Progress
	case t.Attempt.Progress == call.NotSent && v.Progress() == call.NotSent:
		w.settled = true
		return call.NotSent
	}
	return call.Sent
}
