package gateway

import (
	"github.com/capgate/capgate/gateway/client"
	"github.com/capgate/capgate/gateway/filter"
	"github.com/capgate/capgate/gateway/frontdoor/web"
	"github.com/capgate/capgate/gateway/relay"
	"github.com/capgate/capgate/gateway/status"
	"github.com/capgate/capgate/internal/call"
)

// walk is the position of a call in its list.
type walk struct {
	list    *list
	serving *serving      // the innermost stream that code in the process serves; nil means none
	at      rowIndex      // current row
	due     rowIndex      // number of rows whose Done is due
	past    call.Progress // of earlier attempts: Sent if a backend may have carried the call out
	shared  bool          // the call was served, so other code may hold references to it and its strings
	settled bool          // the client knows that the call was not sent, so it must not reach a backend
	over    bool
}

// driver moves calls along their lists. It alone rejects, answers and assigns upstreams, so that no call can bypass a
// filter. All methods run with the shard of the call's stream locked.
type driver struct {
	statuses *status.Cache
	stream   func(*callState) stream // returns the stream of a call; replaced in tests
}

// stream is the part of relay.Stream that only the driver uses.
type stream interface {
	ReadMessage()
	ReadOnlyMessage()
	Reply(msg []byte)
	Refuse(st relay.Status)
	Forward(u *relay.Upstream)
	Serve(f func(*relay.ServerStream) relay.Status)
}

func newDriver(st *status.Cache) *driver {
	return &driver{statuses: st, stream: func(t *callState) stream { return t.Stream.(relayed).Stream }}
}

// Headers starts a call, or continues one on the stream that code in the process opened for it.
func (h *handler) Headers(s *relay.Stream) {
	if served, ok := s.Continues(); ok {
		h.proceed(s, served.(*callState))
		return
	}
	t := h.calls.of(s).get(s)
	startDeadline(s)
	switch v := s.RequestValue().(type) {
	case *web.Inherited:
		t.opening.authenticate.Inherited, t.Client, t.Details = &v.Inherited, v.Client, v.Details
		if c := v.Call; c != nil {
			t.opening.idempotency.Given, t.opening.authorize.Asking = c.IdempotencyKeys, &c.Asking
			t.Feature, t.Info.Changed = c.Feature, c.Toolset != ""
		}
	case *internalCall:
		t.Client.Protocol = call.Own
		t.Route.Address = v.backend
		h.driver.begin(t, h.chain.ofGateway(t))
		return
	default:
		client.Set(h.cfg.Clients.Addr, s, &t.Call)
		t.Client.Protocol = call.Own
		if !s.Peer().Internal {
			t.Client.Protocol = call.GRPC
			h.fairQueue.CallArrived()
		}
	}
	h.driver.begin(t, h.chain.of(t))
}

// startDeadline applies the client's timeout before the fleet is known: while the credential is looked up, and while
// the first message is read.
func startDeadline(s *relay.Stream) {
	if asked, has := s.Timeout(); has {
		s.SetDeadline(asked)
	}
}

// begin moves a call along its list until it waits or has its answer. The call may have ended when begin returns.
func (d *driver) begin(t *callState, l *list) {
	t.walk.list = l
	d.walk(t)
}

// Message continues a call whose first message has arrived.
func (h *handler) Message(s *relay.Stream, msg relay.Message) {
	t := callOf(s)
	t.Message = msg
	h.driver.walk(t)
}

// walk continues at the current row. It does not use the call after a step that may end it.
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
	d.reject(t, filter.Panicked) // the list has no terminal filter
}

// reject ends a call with a refusal of the driver.
func (d *driver) reject(t *callState, refusal *call.Refusal) {
	t.Reject(refusal)
	d.end(t)
}

// end carries out the decision of the last filter.
func (d *driver) end(t *callState) {
	t.ForgetMessage()
	a, s := t.Answer(), d.stream(t)
	switch {
	case a.Refusal != nil:
		refusal := a.Refusal
		if t.walk.past == call.Sent { // a missing further attempt does not explain the result of the call
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

// Started releases the opening of a call, unless code in the process serves the call. From now on, the backend may
// have state of the session that the client knows of.
func (h *handler) Started(s *relay.Stream) {
	t := callOf(s)
	if t.walk.servingOf(relayed{s}) == nil {
		t.Pin.Pinned.MarkUsed()
	}
	if t.walk.serving == nil {
		h.calls.of(s).release(t)
	}
}

// Done ends one of a call's streams.
func (h *handler) Done(s *relay.Stream, r *relay.Result) {
	t := callOf(s)
	own := h.calls.of(s)
	own.open(t)
	if h.driver.done(t, relayed{s}, r); t.walk.over && !t.walk.shared {
		own.put(t)
	}
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
			w.doneTo(0, t, filter.Result{Result: whole, Final: true, Unsent: t.opening.unsent})
			w.over = true
			return
		}
		w.doneTo(w.list.attempt, t, filter.Result{Result: whole, Final: true, Unsent: t.opening.unsent})
		t.opening.unsent = nil
		v.continued(t, whole, atBackend)
		if v.ended == nil {
			t.Stream = v.stream
			return
		}
		r = v.ended
	}
}
