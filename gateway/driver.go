package gateway

import (
	"github.com/capgate/capgate/gateway/filter"
	"github.com/capgate/capgate/gateway/relay"
	"github.com/capgate/capgate/gateway/status"
	"github.com/capgate/capgate/internal/call"
)

// walk is where a call is in its list.
type walk struct {
	list   *list
	result filter.Result
	unsent error // why the last attempt was none

	serving *serving      // of its innermost stream that is served; nil: there is none
	at      rowIndex      // of the row that decides
	due     rowIndex      // number of rows whose Done is due
	past    call.Progress // of the attempts before this one: Sent if a backend may have carried the call out
	shared  bool          // the call was served: others may refer to it and its strings
	settled bool          // the caller knows that the call was not sent: it gets to no backend any more
	over    bool
}

// driver takes calls along their lists. It alone rejects, answers and hands out upstreams, so that no
// filter can be passed by. All of it runs with the shard of the call's stream locked.
type driver struct {
	statuses *status.Cache
	stream   func(*callState) stream // of a call; in tests there is no network
}

// stream is what the driver alone does with a relay.Stream.
type stream interface {
	ReadMessage()
	ReadOnlyMessage()
	Reply(msg []byte)
	Refuse(st relay.Status)
	Forward(u *relay.Upstream)
	Serve(f func(*relay.ServerStream) relay.Status)
}

// relayed is a stream of the relay.
type relayed struct{ *relay.Stream }

// Wait implements filter.Stream.
func (s relayed) Wait() filter.Parked { return parked{s.Park()} }

// parked is a stream of the relay that waits.
type parked struct{ relay.Parked }

// Resume implements filter.Parked.
func (p parked) Resume(take, gone func()) {
	p.Parked.Resume(func(s *relay.Stream) {
		if s == nil {
			gone()
			return
		}
		take()
		t := callOf(s)
		t.walk.list.driver.walk(t)
	})
}

func newDriver(st *status.Cache) *driver {
	return &driver{statuses: st, stream: func(t *callState) stream { return t.Stream.(relayed).Stream }}
}

// begin takes a call along its list until it waits or has its answer. The call may be over when it returns.
func (d *driver) begin(t *callState, l *list) {
	t.walk.list = l
	d.walk(t)
}

// walk goes on at the row where the call is. It does not touch the call after what may end it.
func (d *driver) walk(t *callState) {
	w := &t.walk
	if w.settled {
		d.reject(t, filter.CallOver)
		return
	}
	for ; int(w.at) < len(w.list.rows); w.at++ {
		w.due = w.at + 1 // before Admit, which may panic
		switch w.list.rows[w.at].admit(t) {
		case filter.Continue:
		case filter.Again:
			d.undo(t)
			w.at = w.list.attempt - 1
		case filter.Read:
			t.ForgetMessage()
			d.stream(t).ReadOnlyMessage()
			return
		case filter.ReadAny:
			t.ForgetMessage()
			d.stream(t).ReadMessage()
			return
		case filter.Wait:
			t.ForgetMessage()
			return
		case filter.Stop:
			if t.Answer().Refusal != nil {
				w.due = w.at
			}
			d.end(t)
			return
		}
	}
	d.reject(t, filter.Panicked) // a list without an end
}

// reject ends a call with the driver's own rejection.
func (d *driver) reject(t *callState, refusal *call.Refusal) {
	t.Reject(refusal)
	d.end(t)
}

// end does what the last filter decided.
func (d *driver) end(t *callState) {
	t.ForgetMessage()
	a, s := t.Answer(), d.stream(t)
	switch {
	case a.Refusal != nil:
		refusal := a.Refusal
		if t.walk.past == call.Sent { // what prevents another attempt is not what became of the call
			refusal = filter.AttemptLost
		}
		t.Reason = refusal.Reason
		s.Refuse(d.statuses.Refusal(refusal, t.walk.past))
	case a.Upstream != nil:
		t.Attempt.Progress = call.Sent
		s.Forward(a.Upstream)
	case a.Server != nil:
		w := &t.walk
		w.serving, w.shared = &serving{Served: a.Served, outer: w.serving, stream: t.Stream, row: w.at}, true
		s.Serve(a.Server)
	default:
		s.Reply(a.Message)
	}
}

// again begins another attempt of a call that did not start where it was sent, if it may have one.
func (d *driver) again(t *callState, err error) {
	w := &t.walk
	t.Answer().Upstream = nil
	if w.at < w.list.attempt {
		d.reject(t, filter.ShuttingDown)
		return
	}
	w.unsent, t.Attempt.Progress = err, w.past
	if refusal := w.list.repeat(t, err); refusal != nil {
		d.reject(t, refusal) // done ends the attempt, too
		return
	}
	d.undo(t)
	w.at = w.list.attempt
	d.walk(t)
}

// undo has the filters of an attempt give back what they had, before another one.
func (d *driver) undo(t *callState) {
	w := &t.walk
	w.doneTo(w.list.attempt, t, filter.Result{Unsent: w.unsent})
	w.unsent = nil
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

// done ends one of a call's streams, and the call with the last of them.
func (d *driver) done(t *callState, s filter.Stream, r *relay.Result) {
	w := &t.walk
	if t.Stream != s {
		w.servingOf(s).end(t, r)
		return
	}
	t.ForgetMessage()
	for {
		whole, atBackend := w.leave(t, r)
		v := w.serving
		if v == nil {
			w.doneTo(0, t, filter.Result{Result: whole, Final: true, Unsent: w.unsent})
			w.over = true
			return
		}
		w.doneTo(w.list.attempt, t, filter.Result{Result: whole, Final: true, Unsent: w.unsent})
		w.unsent = nil
		v.continued(t, whole, atBackend)
		if v.ended == nil {
			t.Stream = v.stream
			return
		}
		r = v.ended
	}
}

// doneTo calls Done of the rows from that one on for which it is due, the last first.
func (w *walk) doneTo(first rowIndex, t *callState, r filter.Result) {
	w.result = r
	for w.due > first {
		w.due--
		if done := w.list.rows[w.due].done; done != nil {
			done(t, &w.result)
		}
	}
	w.result = filter.Result{}
}
