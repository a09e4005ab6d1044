package relay

import (
	"context"
	"math"
	"net/http"
	"net/url"
	"time"

	"github.com/capgate/capgate/gateway/relay/accept"
	"github.com/capgate/capgate/gateway/relay/hpack"
)

// webEnd is an upstream in the process: the http.Handler, for one request. It is not reused, so a handler that keeps a
// request or its ResponseWriter never accesses another request.
type webEnd struct {
	localEnd
	ctx    webContext
	body   webBody
	writer webWriter

	// Set before the handler runs.
	method, path, authority string
	header                  []hpack.Field // in writer.few, if it is large enough
	complete                bool          // the request has no body
	outlives                bool          // set by Outlive
	peer                    *Peer
	value                   any // Stream.Value as set by Config.Web
	target                  url.URL

	// Guarded by the shard's lock.
	begun   bool  // the request's headers were received
	headers int32 // cost of the request's headers and trailers as kept for the handler, in bytes

	// Guarded by mu.
	requestEnd bool // END_STREAM was received
	reads      bool // Read waits
	writes     bool // give waits
	trailer    []hpack.Field
	reply      webReply
	readBy     time.Time // deadline of reads of the body; zero means none
	writeBy    time.Time
	unread     error  // why the body can no longer be read; nil means it can
	unwritten  error  // why nothing more can be written, if not because of the client
	gone       func() // see Outlive; nil means not called
	waiter     Waiter // see WaitIn; nil means none
}

// webReply is the handler's response, except bytes of the body.
type webReply struct {
	early   []webHead // informational responses to send first
	head    webHead
	headed  bool // head was sent or can be sent
	bare    bool // nothing follows head
	trailer []hpack.Field
	ended   bool // trailer ends the response
	reset   bool // with code
	code    errCode
}

// webHead is the start of a response.
type webHead struct {
	status int
	fields []hpack.Field
}

// maxEarly is the maximum number of queued informational responses. Further ones are dropped, because they are only
// hints.
const maxEarly = 16

// maxWeb is the maximum number of concurrent requests of the http.Handler per shard. Further ones are rejected with
// the status 503.
const maxWeb = 20_000

// serveWeb runs the http.Handler on its own goroutine to serve the stream.
func (s *Stream) serveWeb() {
	r := s.sh.relay
	if r.webs.Add(1) > int64(maxWeb*len(r.shards)) {
		r.webs.Add(-1)
		s.refuseHTTP("503")
		return
	}
	s.noReplay() // the request cannot be sent elsewhere
	e := &webEnd{peer: s.Peer(), value: s.Value}
	e.raw, e.holds = true, true
	e.init(e, s.sh, math.MaxInt-prefixLen)
	e.ctx.end, e.body.end, e.writer.end = e, e, e
	e.writer.few = webFieldsPool.Get().(*webFields)
	s.startOn(e, 0, r.cfg.HTTP2.StreamWindow)
	s.sh.workers.serve(r, e)
}

// run calls the handler.
func (e *webEnd) run() {
	r := e.sh.relay
	answered := false
	defer func() {
		if v := recover(); !answered { // it has panicked, or ended its goroutine
			if v != nil && v != http.ErrAbortHandler { //nolint:errorlint // as net/http compares it
				r.panicked("relay serve", v)
			}
			e.reset(errInternal, nil)
		}
		if !e.outlives {
			e.over()
		}
	}()
	e.answer(r.webHandler)
	answered = true
}

// over is called once after the response.
func (e *webEnd) over() {
	r := e.sh.relay
	e.ctx.finish()
	r.webs.Add(-1)
	r.serving.Add(-1)
	r.localGone()
}

func (e *webEnd) answer(h http.Handler) {
	req := e.request()
	switch {
	case req == nil:
		e.reset(errProtocol, nil)
		return
	case len(req.Header["Te"]) > 1:
		http.Error(&e.writer, `request header "TE" may only be "trailers" in HTTP/2`, http.StatusBadRequest)
	case req.Method == http.MethodOptions && req.RequestURI == "*":
		e.writer.Header().Set("Content-Length", "0") // as http.Server responds
	default:
		h.ServeHTTP(&e.writer, req)
	}
	if e.outlives {
		return
	}
	e.writer.finish()
	if req.MultipartForm != nil {
		_ = req.MultipartForm.RemoveAll() // on error, files remain in the system's temporary directory
	}
}

// act implements actor.
func (e *webEnd) act() {
	h := e.half
	if h == nil {
		return
	}
	a, lasts := e.currentReply()
	s := h.stream
	if lasts && s.lasting == 0 {
		s.lasting, s.Value = lastingBytes+max(e.headers-freeHeaders, 0), nil
		if !s.recount() {
			s.fail(AccountExceeded)
		}
	}
	for i := range a.early {
		if e.half == h && !s.started {
			e.send(h, &a.early[i], false)
		}
	}
	if a.headed && e.half == h && !s.started {
		e.send(h, &a.head, a.bare)
		e.releaseFields()
		e.releaseHeld()
	}
	if e.half == h {
		e.pass()
	}
	if e.half == h && a.ended {
		e.sendTrailer(h, a.trailer)
	}
	if e.half == h && a.reset {
		s.refused(a.code)
	}
}

// currentReply returns the response so far, and whether it outlives its handler.
func (e *webEnd) currentReply() (a webReply, lasts bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	a = e.reply
	e.reply.early = nil
	return a, e.gone != nil
}

// send sends the start of a response.
func (e *webEnd) send(h *half, head *webHead, end bool) {
	list := e.sh.scratch // see Stream.headers
	list.Reset()
	if head.status == http.StatusOK {
		list.Fields = append(list.Fields, e.sh.consts.status200)
	} else {
		text := statusText(head.status)
		list.Append(":status", text, classify(":status", text))
	}
	appendFields(list, head.fields)
	h.stream.headers(h, list, end, false)
}

func (e *webEnd) sendTrailer(h *half, fields []hpack.Field) {
	list := e.sh.scratch
	list.Reset()
	appendFields(list, fields)
	h.stream.headers(h, list, true, false)
}

func appendFields(list *hpack.List, fields []hpack.Field) {
	for i := range fields {
		f := &fields[i]
		list.Append(f.Name, f.Value, f.Tag)
	}
}

// block implements localOwner. It receives the request's headers and trailers.
func (e *webEnd) block(h *half, list *hpack.List, end bool) {
	if !e.begun {
		e.begun, e.complete = true, end
		e.keep(list)
	} else if trailer := e.keepAll(list, nil); validTrailers(trailer) {
		e.mu.Lock()
		e.trailer = trailer
		e.mu.Unlock()
	} else {
		e.refuseLater(h.stream)
		return
	}
	if end {
		e.ended(nil)
	}
}

// refuseLater ends the stream of a malformed request after the turn's other work.
func (e *webEnd) refuseLater(s *Stream) {
	e.sh.later(func() {
		if h := e.half; h != nil && h.stream == s {
			s.refused(errProtocol)
		}
	})
}

// overlong implements localOwner. It is not called for bytes.
func (e *webEnd) overlong(*half) {}

// ended implements localOwner. The request is complete.
func (e *webEnd) ended(*Stream) {
	e.mu.Lock()
	e.inEnd, e.requestEnd = true, true
	e.mu.Unlock()
	e.notify(notifyReceiver)
}

// detach ends the request for the handler.
func (e *webEnd) detach(h *half) {
	e.leave(h)
	e.ctx.finish()
	e.close()
	e.left()
}

// abandon is detach for a shard in an unknown state.
func (e *webEnd) abandon() {
	e.half, e.pumps = nil, false
	e.ctx.finish()
	e.close()
	e.left()
}

// reset ends the stream without the rest of its response.
func (e *webEnd) reset(code errCode, why error) {
	e.mu.Lock()
	if !e.reply.reset {
		e.reply.reset, e.reply.code, e.unwritten = true, code, why
	}
	e.shut = true
	writable := e.writable
	e.mu.Unlock()
	wake(writable)
	e.sh.post(&e.event)
}

// EndsUnread reports whether the context of a request ends when a write of its response exceeds the write deadline. It
// does for all requests that a Relay serves.
func EndsUnread(ctx context.Context) bool {
	_, second := ctx.Value(webKey{}).(*webEnd)
	return second || accept.PeerOf(ctx) != nil // net/http ends it after any failed write
}
