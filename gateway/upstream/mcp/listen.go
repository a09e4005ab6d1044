package mcp

import (
	"context"
	"encoding/json"
	"net/http"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"

	"github.com/capgate/capgate/gateway/questions"
	"github.com/capgate/capgate/gateway/upstream"
	"github.com/capgate/capgate/internal/lib/backoff"
	"github.com/capgate/capgate/internal/manifest"
)

// A server of an earlier revision may ask on the stream of a GET, which belongs to no call (2025-11-25, Streamable
// HTTP, "Listening for Messages from the Server"). Some SDKs do so unless the tool names its call. A question there is
// for the only call of the session whose client answers questions. If the client answers only those in results (since
// 2026-07-28), the server gets an error at once.
const (
	streamCost     = 24 << 10        // the gateway's memory for a stream, in bytes
	streamIdle     = time.Minute     // until a stream closes that no call needs
	streamPatience = 2 * time.Second // of a call for the response to the GET
)

// listener has the stream of one session, while its calls or followers need it.
type listener struct {
	running sync.WaitGroup

	mu      sync.Mutex
	calls   map[*exchange]struct{} // whose clients answer questions, perhaps only those in results
	follows map[*follow]struct{}
	stream  *stream   // nil means none
	none    time.Time // until then, the server is not asked for a stream
	closed  bool
	idle    *time.Timer
}

// hearer handles the messages of a stream. An error ends it.
type hearer interface {
	heard(t *transport, r *http.Request, data []byte) error
}

// stream is the stream of a GET.
type stream struct {
	stop   context.CancelFunc
	opened chan struct{} // closed after the response to the GET
}

// listen adds a call to a session, and opens the stream if there is none. It returns once the server can ask there, or
// has no stream. leave must be called before the call settles.
func (v *server) listen(ex *exchange, s *session, o *opened) (leave func()) {
	if ex.method == manifest.Subscribe || ex.asks.kinds == 0 || o.ID() == "" ||
		o.InitializeResult().ProtocolVersion >= modern {
		return func() {}
	}
	l := &o.link.listener
	l.awaits(ex.ctx, l.join(ex.ctx, v, s, o, func() { l.calls[ex] = struct{}{} }))
	return func() { l.leave(ex) }
}

// awaits waits for the response to the GET, and reports whether the stream is open.
func (l *listener) awaits(ctx context.Context, of *stream) bool {
	if of == nil {
		return false
	}
	patience := time.NewTimer(streamPatience)
	defer patience.Stop()
	select {
	case <-of.opened:
	case <-patience.C:
		return false
	case <-ctx.Done():
		return false
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.stream == of
}

// join adds a call or a follower, and returns the stream; nil means none.
func (l *listener) join(ctx context.Context, v *server, s *session, o *opened, add func()) *stream {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.begin()
	add()
	if l.idle != nil {
		l.idle.Stop()
	}
	if l.stream == nil && !l.closed && time.Now().After(l.none) && (s.held == nil || s.held.Reserve(streamCost)) {
		streaming, stop := context.WithCancel(upstream.WithoutCaller(context.WithoutCancel(ctx)))
		of := &stream{stop, make(chan struct{})}
		l.stream = of
		l.running.Go(func() {
			l.run(streaming, v.transport, o, of)
			if s.held != nil {
				s.held.Release(streamCost)
			}
		})
	}
	return l.stream
}

// begin makes the zero value usable. The caller must hold mu.
func (l *listener) begin() {
	if l.calls == nil {
		l.calls, l.follows = map[*exchange]struct{}{}, map[*follow]struct{}{}
	}
}

// leave removes a call. A stream without calls closes after a while.
func (l *listener) leave(ex *exchange) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.calls, ex)
	l.rest()
}

// rest closes a stream that nothing needs after a while. The caller must hold mu.
func (l *listener) rest() {
	if len(l.calls)+len(l.follows) == 0 && l.stream != nil && !l.closed {
		l.idle = time.AfterFunc(streamIdle, func() { l.isUnused() })
	}
}

// isUnused reports whether no call needs the stream, which then ends.
func (l *listener) isUnused() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.calls)+len(l.follows) > 0 {
		return false
	}
	if l.stream != nil {
		l.stream.stop()
		l.stream = nil
	}
	return true
}

// remove removes a follower. In a session that replicas share, a stream that nothing needs closes at once, so that
// another one can open it.
func (l *listener) remove(f *follow, shared bool) {
	l.drop(f)
	if shared {
		l.isUnused()
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.rest()
}

// drop is remove that leaves the stream open.
func (l *listener) drop(f *follow) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.follows, f)
}

// has reports whether a resource has a follower.
func (l *listener) has(uri string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	for f := range l.follows {
		if f.uri == uri {
			return true
		}
	}
	return false
}

// keep adds a follower, and runs serve, for which close waits. It returns false after close.
func (l *listener) keep(f *follow, serve func()) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return false
	}
	l.begin()
	l.follows[f] = struct{}{}
	l.running.Go(serve)
	return true
}

// close ends the stream for good.
func (l *listener) close() {
	l.mu.Lock()
	l.closed = true
	if l.stream != nil {
		l.stream.stop()
	}
	for f := range l.follows {
		f.end()
	}
	if l.idle != nil {
		l.idle.Stop()
	}
	l.mu.Unlock()
	l.running.Wait()
}

// run reads the stream, which a server may end as often as it likes.
func (l *listener) run(ctx context.Context, t *transport, o *opened, of *stream) {
	defer of.stop()
	open, opened := sync.OnceFunc(func() { close(of.opened) }), 0
	defer open()
	ready := func() {
		if opened++; opened > 1 {
			l.missed()
		}
		open()
	}
	pace := &paced{of: newPace(), ctx: ctx}
	for pace.take(perStream) == nil && l.read(ctx, t, o, pace, ready) && backoff.Sleep(ctx, resumeAfter) {
		if l.isUnused() {
			return
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.stream == of {
		l.stream, l.none = nil, time.Now().Add(streamIdle)
		for f := range l.follows {
			f.end()
		}
	}
}

// read reads one stream to its end. It returns false if the server has none.
func (l *listener) read(ctx context.Context, t *transport, o *opened, pace *paced, ready func()) bool {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, o.link.url, nil)
	if err != nil {
		return false
	}
	r.Header.Set("Accept", "text/event-stream")
	r.Header.Set("Mcp-Session-Id", o.ID())
	r.Header.Set("Mcp-Protocol-Version", o.InitializeResult().ProtocolVersion)
	if err = t.prepare(r, head{}); err != nil {
		return false
	}
	resp, err := t.roundTrip(r)
	if err != nil {
		return false
	}
	defer func() { _ = resp.Body.Close() }()
	if !isGood(resp) || !isEvents(resp) {
		return false
	}
	ready()
	b := newEvents(t, r, resp, "")
	b.most, b.pace, b.heard = questions.MaxSample+maxNotice, &paced{pace.of, t.updates, ctx}, l
	for err == nil {
		_, err = b.next()
	}
	return true
}

// missed notifies the followers that updates may have been lost, because the stream was not open.
func (l *listener) missed() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for f := range l.follows {
		f.of.Updated()
	}
}

// updated notifies the followers of a resource.
func (l *listener) updated(params json.RawMessage) {
	uri := updatedURI(params)
	l.mu.Lock()
	defer l.mu.Unlock()
	for f := range l.follows {
		f.updated(uri)
	}
}

// only returns the only call of the session that the server can ask; nil means none.
func (l *listener) only() (call *exchange) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for ex := range l.calls {
		if call != nil {
			return nil
		}
		call = ex
	}
	return call
}

// heard implements hearer. A question goes to the only call, and another request has an error. Followers are notified
// of updates. Other notifications are dropped, because a call that has ended, or one of another replica, may have
// caused them. r is the request of the stream.
func (l *listener) heard(t *transport, r *http.Request, data []byte) error {
	m, err := parse(data)
	if err == nil && m.Method != nil && len(m.ID) == 0 && *m.Method == updatedMethod {
		l.updated(m.Params)
		return nil
	}
	if err != nil || m.Method == nil || len(m.ID) == 0 || len(m.ID) > maxQuestionID {
		return err
	}
	if call := l.only(); call != nil && call.isSent() && t.asked(call, m) {
		return nil
	}
	of := wire{Version: "2.0", ID: m.ID, Result: json.RawMessage("{}")}
	if *m.Method != "ping" {
		of.Result, of.Error = nil, &jsonrpc.Error{Code: jsonrpc.CodeInvalidRequest, Message: "no client answers this " +
			"request, or several calls of the session could have made it: send it on the stream of its call"}
	}
	t.respond(r.Context(), r, of)
	return nil
}
