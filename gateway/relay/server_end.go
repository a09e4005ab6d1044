package relay

import (
	"context"
	"time"

	"github.com/capgate/capgate/gateway/relay/hpack"
)

// Serve runs f on its own goroutine to serve the stream in place of an upstream. f receives what an upstream would:
// the Handler's changes to the headers, flow control, and the end of the call as the end of its context. The Status
// that f returns follows its messages. A panic ends the call with INTERNAL. Close and Shutdown wait for f.
func (s *Stream) Serve(f func(*ServerStream) Status) { s.serve(f, false) }

// serve is Serve. If upstream is true, f stands for an upstream, and may return Unsent.
func (s *Stream) serve(f func(*ServerStream) Status, upstream bool) {
	s.sh.acting++
	defer func() { s.sh.acting-- }()
	if s.tooLate() {
		return
	}
	s.upstream = nil
	stream := &ServerStream{}
	e := &stream.end
	e.serve(s)
	e.upstream = upstream
	s.startOn(e, 0, s.sh.relay.cfg.HTTP2.StreamWindow)
	s.sh.relay.goServe(func() { e.run(stream, f) })
}

// goServe starts a goroutine that Shutdown and Close wait for.
func (r *Relay) goServe(f func()) {
	r.serving.Add(1)
	r.wg.Go(func() {
		defer r.localGone()
		defer r.serving.Add(-1)
		f()
	})
}

// serverEnd is an upstream in the process, of a ServerStream. It is not reused, so a reference never belongs to
// another call.
type serverEnd struct {
	localEnd
	ctx    context.Context //nolint:containedctx // of the call, as grpc.ServerStream has it
	cancel context.CancelFunc

	// Set before f runs.
	path, authority string
	header          []Field
	peer            *Peer
	value           any    // Stream.Value of the served stream
	deadline        int64  // on the shard's clock; 0 means none
	group           *Group // charged for the stream and its subrequests; nil means none

	upstream bool // a Status with Unsent is allowed

	// Guarded by the shard's lock.
	begun    bool // the request's headers were received
	children childList

	// Guarded by mu.
	requestEnd bool // END_STREAM was received
	reply      answer
	parent     parentState
}

// answer is the response of served code, except messages.
type answer struct {
	headed  bool // headers were sent or can be sent
	header  []Field
	trailer []Field
	ended   bool // status is set
	status  Status
}

func (e *serverEnd) serve(s *Stream) {
	r := s.sh.relay
	e.init(e, s.sh, r.cfg.HTTP2.MaxFirstMessage)
	e.peer, e.value, e.deadline, e.group = s.Peer(), s.Value, s.deadline, s.payer
	e.parent.users, e.holds = 1, true
	e.ctx, e.cancel = e.context()
}

// context returns the call's context, which ends with the deadline, or with the relay.
func (e *serverEnd) context() (context.Context, context.CancelFunc) {
	r := e.sh.relay
	if e.deadline != 0 {
		return context.WithDeadline(r.ctx, r.epoch.Add(time.Duration(e.deadline)))
	}
	return context.WithCancel(r.ctx)
}

// run calls f to serve the call.
func (e *serverEnd) run(stream *ServerStream, f func(*ServerStream) Status) {
	st := Status{Code: codeInternal, Message: "internal error"}
	defer func() {
		if v := recover(); v != nil {
			e.sh.relay.panicked("relay serve", v)
		}
		e.mu.Lock()
		e.reply.ended, e.reply.status = true, st
		e.mu.Unlock()
		e.sh.post(&e.event)
		e.release()
		e.cancel()
	}()
	st = f(stream)
}

// act implements actor.
func (e *serverEnd) act() {
	h := e.half
	if h == nil {
		return
	}
	a := e.currentReply()
	if a.headed && !h.stream.started {
		e.send(h, a.header, nil)
		e.releaseHeld()
	}
	if e.half == h {
		e.pass()
	}
	if a.ended && e.half == h {
		e.finish(h, &a)
	}
}

// finish ends the response. A function may observe the deadline before the shard's timer does.
func (e *serverEnd) finish(h *half, a *answer) {
	if a.status.Unsent != nil && e.upstream && !h.stream.started {
		h.stream.unsent(a.status.Unsent)
		return
	}
	if f := a.status.Failure; f != NoFailure && e.upstream {
		if (f == UpstreamLost || a.status.Code == codeUnavailable) && h.stream.again(Answer{}) {
			h.stream.unsent(ErrLost)
			return
		}
		h.stream.result.Failure = f
	}
	stopped := a.status.Code == codeCanceled || a.status.Code == codeDeadlineExceeded
	if s := h.stream; stopped && s.deadline != 0 && e.sh.now >= s.deadline {
		s.failWith(DeadlineExceeded)
		return
	}
	e.send(h, a.trailer, &a.status)
}

func (e *serverEnd) currentReply() answer {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.reply
}

// send sends headers, or trailers with a status.
func (e *serverEnd) send(h *half, fields []Field, st *Status) {
	s, consts := h.stream, &e.sh.consts
	list := e.sh.scratch // see Stream.headers
	list.Reset()
	if !s.started {
		list.Fields = append(list.Fields, consts.status200)
		if !hasContentType(fields) {
			list.Fields = append(list.Fields, consts.contentType)
		}
	}
	if st != nil {
		appendStatus(list, consts, *st)
	}
	for _, f := range fields {
		list.Append(f.Name, f.Value, classify(f.Name, f.Value))
	}
	s.headers(h, list, st != nil, false)
}

func hasContentType(fields []Field) bool {
	for _, f := range fields {
		if f.Name == "content-type" {
			return true
		}
	}
	return false
}

// block implements localOwner. It receives the request's headers. gRPC has no request trailers.
func (e *serverEnd) block(_ *half, list *hpack.List, end bool) {
	if !e.begun {
		e.begun = true
		for i := range list.Fields {
			switch f := &list.Fields[i]; f.Tag & nameMask {
			case namePath:
				e.path = string(append([]byte(nil), f.Value...))
			case nameAuthority:
				e.authority = string(append([]byte(nil), f.Value...))
			}
		}
		e.header = keepFields(list)
	}
	if end {
		e.ended(nil)
	}
}

// overlong implements localOwner. Recv reports it, and the serving code decides how the call ends.
func (e *serverEnd) overlong(*half) {
	e.mu.Lock()
	e.tooMuch = true
	e.mu.Unlock()
	e.notify(notifyReceiver)
}

// ended implements localOwner. The request is complete.
func (e *serverEnd) ended(*Stream) {
	e.mu.Lock()
	e.inEnd, e.requestEnd = true, true
	e.mu.Unlock()
	e.notify(notifyReceiver)
}

// detach ends the call for its serving code, and its subrequests.
func (e *serverEnd) detach(h *half) {
	e.leave(h)
	if s := h.stream; s.result.Failure != DeadlineExceeded || s.deadline != e.deadline {
		e.cancel() // otherwise the context ends by itself now, with its own reason
	}
	e.close()
	e.children.cancel(e)
}

// abandon is detach for a shard in an unknown state.
func (e *serverEnd) abandon() {
	e.half, e.pumps, e.children = nil, false, childList{}
	e.cancel()
	e.close()
}

// childList is the list of a served call's subrequests.
type childList struct{ first *clientEnd }

func (l *childList) add(c *clientEnd) {
	if c.nextChild = l.first; c.nextChild != nil {
		c.nextChild.prevChild = c
	}
	l.first = c
}

func (l *childList) remove(c *clientEnd) {
	if c.prevChild != nil {
		c.prevChild.nextChild = c.nextChild
	} else if l.first == c {
		l.first = c.nextChild
	}
	if c.nextChild != nil {
		c.nextChild.prevChild = c.prevChild
	}
	c.prevChild, c.nextChild = nil, nil
}

// cancel cancels all of them, unless they were detached.
func (l *childList) cancel(e *serverEnd) {
	if e.isDetached() {
		return
	}
	for c := l.first; c != nil; c = c.nextChild {
		c.mu.Lock()
		c.canceled = context.Canceled
		c.mu.Unlock()
		e.sh.push(&c.event)
	}
}
