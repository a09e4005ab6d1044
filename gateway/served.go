package gateway

import (
	"context"

	"github.com/capgate/capgate/gateway/filter"
	"github.com/capgate/capgate/gateway/relay"
	"github.com/capgate/capgate/gateway/status"
	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/telemetry"
)

// serving is what the driver remembers of a stream that code in the process serves, and of what continues it.
type serving struct {
	*filter.Served
	outer     *serving      // of the stream that this one continues; nil: none
	stream    filter.Stream // that is served
	row       rowIndex      // of the filter that serves it
	live      bool          // another stream continues it
	ended     *relay.Result // of the stream, where that has ended before the one that continues it
	explained string        // why the relay has ended the stream; "": it has not
	code      uint32        // of the last stream that continued it
	reason    string        // why the gateway has rejected that one; "": it has not
	last      *relay.Result // of the last stream at a backend; nil: there was none
}

// refuse is the error by which served code refuses its call, for the reason that the call's record has.
func refuse(ctx context.Context, refusal *call.Refusal) error {
	p := call.Answered
	if v := filter.ServedOf(ctx); v != nil {
		v.Refused.Store(refusal)
		p = progressOf(v.Begun.Load() || v.Acted.Load())
	}
	return status.Of(refusal, p).Err()
}

// progressOf returns the progress of a call that a backend may have carried out, or not.
func progressOf(ran bool) call.Progress {
	if ran {
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

// settle takes note of how a stream has ended that continued the call: with r, and served, if it was, as own says. It
// returns how the stream at a backend has ended, where there was one.
func (v *serving) settle(t *callState, own *serving, r *relay.Result) (atBackend *relay.Result) {
	v.live, v.code, v.reason, t.Reason = false, r.Code, t.Reason, ""
	switch {
	case own == nil && r.Forwarded > 0:
		last := *r
		v.last = &last
	case own == nil:
		return r
	case own.last == nil:
		return withoutBackend(r)
	default:
		v.last = own.last
	}
	return v.last
}

// withoutBackend is how a call ended of which no backend has atBackend.
func withoutBackend(r *relay.Result) *relay.Result {
	return &relay.Result{Code: r.Code, Started: r.Started, Ended: r.Ended}
}

// servingOf is what serves a stream of the call in the process; nil: nothing does.
func (w *walk) servingOf(s filter.Stream) *serving {
	v := w.serving
	for v != nil && v.stream != s {
		v = v.outer
	}
	return v
}

// mayHaveRun says whether a backend may have carried out a call that the relay ends by its stream s. Where the answer
// is no, the driver keeps the call from every backend: code that serves it may not know yet that it is over.
func (w *walk) mayHaveRun(t *callState, s *relay.Stream) bool {
	v := w.servingOf(relayed{s})
	if v == nil {
		return t.Attempt.Lost || t.Attempt.Started && s.Sent()
	}
	ran := t.Attempt.Started || t.Attempt.Lost || v.Acts || v.Acted.Load()
	w.told = !ran
	return ran
}
