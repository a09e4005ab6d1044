package gateway

import (
	"context"

	"github.com/capgate/capgate/gateway/dialect"
	"github.com/capgate/capgate/gateway/filter"
	"github.com/capgate/capgate/gateway/relay"
	"github.com/capgate/capgate/gateway/status"
	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/overload"
	"github.com/capgate/capgate/internal/telemetry"
)

// serving is the driver's state of a stream that code in the process serves, and of the streams that continue it.
type serving struct {
	*filter.Served
	outer     *serving      // the stream that this one continues; nil means none
	stream    filter.Stream // the served stream
	row       rowIndex      // of the filter that serves it
	live      bool          // another stream continues it
	ended     *relay.Result // result of the stream, if it ended before its continuation
	explained string        // reason of the relay's failure; empty means none
	code      uint32        // of the last continuation
	reason    string        // rejection of the last continuation; empty means none
	last      *relay.Result // result of the last stream at a backend; nil means none
}

// proceed continues a call on a further stream.
func (h *handler) proceed(s *relay.Stream, t *callState) {
	if t.walk.over {
		h.driver.begin(h.calls.of(s).get(s), h.chain.ended)
		return
	}
	s.Value = t
	if e, ok := dialect.Lookup(s.Path()); ok {
		t.Spoken = e
	}
	h.driver.proceed(t, relayed{s})
}

// proceed continues a call that code in the process serves on another stream: at the filter after the serving one, or
// with another attempt.
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

// refuse records why served code refuses its call, and returns the error for its caller.
func refuse(ctx context.Context, refusal *call.Refusal) error {
	v := filter.ServedOf(ctx)
	if v == nil {
		return status.Error(refusal, call.Answered)
	}
	v.Refused.Store(refusal)
	return status.Error(refusal, refusedAt(v))
}

// refusedAt returns the progress of a call that the code which serves it refuses.
func refusedAt(v *filter.Served) call.Progress {
	if v.Continued.Load() || v.Progress() == call.Sent {
		return call.Sent
	}
	return call.NotSent
}

// tell adds to a call the outcome that the code which served it has set, at the end of its stream with r.
func (v *serving) tell(t *callState, r *relay.Result) {
	switch refusal := v.Refused.Load(); {
	case v.explained != "":
		t.Reason = v.explained
	case t.Reason != "":
	case refusal != nil && r.Upstream && r.Code == uint32(status.CodeOf(refusal.Kind)):
		t.Reason = refusal.Reason
		if refusal.Reason == filter.Overloaded.Reason {
			t.Shed = overload.Queue
		}
	case v.code == r.Code:
		t.Reason = v.reason
	}
	if o := telemetry.Outcome(v.Outcome.Load()); o != telemetry.NoOutcome {
		t.Outcome = o
	}
}

// merge combines the result r of the served stream with that of the stream at a backend: code and bytes are those that
// the client received, and the times at the backend are those of the other stream.
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

// end notes that the stream has ended before its continuation.
func (v *serving) end(t *callState, r *relay.Result) {
	ended := *r
	v.ended, v.explained, t.Reason = &ended, t.Reason, ""
}

// leave ends a served stream that no other stream continues. whole is its result including the continuation; atBackend
// is the part at a backend, or nil.
func (w *walk) leave(t *callState, r *relay.Result) (whole, atBackend *relay.Result) {
	v := w.serving
	if v == nil || v.live { // not served in the process
		return r, r
	}
	w.serving = v.outer
	v.tell(t, r)
	if !v.Continued.Load() {
		w.doneTo(w.list.attempt, t, filter.Result{Result: withoutBackend(r), Final: true})
	}
	return v.merge(r), v.last
}

// continued notes the end of a continuing stream. Its arguments are the results of leave.
func (v *serving) continued(t *callState, whole, atBackend *relay.Result) {
	v.live, v.code, v.reason, t.Reason = false, whole.Code, t.Reason, ""
	switch {
	case atBackend == nil:
		atBackend = withoutBackend(whole)
	case atBackend.Forwarded > 0:
		last := *atBackend // a copy, because the relay reuses the result
		v.last, atBackend = &last, &last
	}
	if notify := t.walk.list.rows[v.row].continued; notify != nil {
		notify(t, atBackend)
	}
}

// withoutBackend returns the result of a call that was never sent to a backend.
func withoutBackend(r *relay.Result) *relay.Result {
	return &relay.Result{Code: r.Code, Started: r.Started, Ended: r.Ended}
}

// servingOf returns the state of a served stream; nil means it is not served in the process.
func (w *walk) servingOf(s filter.Stream) *serving {
	v := w.serving
	for v != nil && v.stream != s {
		v = v.outer
	}
	return v
}

// progress returns how far a call has come that the relay ends by its stream s. After NotSent, the driver must not
// send the call to a backend: code that serves it may not know yet that it has ended.
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
