package relay

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/capgate/capgate/gateway/relay/accept"
	"github.com/capgate/capgate/gateway/relay/hpack"
)

// Request is a call made inside the process. To a Handler it is a gRPC request.
type Request struct {
	Path      string  // "/package.Service/Method"
	Authority string  // default "localhost"
	Header    []Field // metadata, with lower-case names; content-type defaults to application/grpc
	// Timeout is the maximum duration of the call, which then ends with DeadlineExceeded; 0 means that only the
	// context's deadline applies.
	Timeout time.Duration
	Peer    *Peer // client on whose behalf the call is made, for Stream.Peer; nil means the process itself
	Value   any   // for the Handler, as Stream.RequestValue, such as the authenticated caller

	// MaxMessage is the maximum size of a response message, in bytes; default HTTP2.MaxFirstMessage. A longer message
	// ends the call with MessageTooLarge.
	MaxMessage int
	// Hold is charged for the response to Unary as it grows. If it has no room, the call ends with AccountExceeded.
	// The caller must release the charge. If nil, only the stream is charged.
	Hold Account
	// Parent makes the call a subrequest, see Handle. Its Peer defaults to that of its parent.
	Parent Handle

	continues bool
}

// clientEnd is a downstream in the process, of a ClientStream or of Unary.
type clientEnd struct {
	localEnd
	request Request
	message []byte    // for Unary, preceded by Headroom; nil means messages are sent
	answer  *Response // for Unary

	// Under the shard's lock.
	stream               *Stream // nil before open and after the end
	opened               bool
	over                 bool // the user was notified of the end
	ungrouped            ledger
	prev, next           *clientEnd // in shard.locals
	prevChild, nextChild *clientEnd // in the parent's children
	stop                 func() bool
	httpCode             uint32 // HTTP status of a response that is not gRPC

	// Under mu.
	canceled error // why the user canceled the call
	headed   bool  // header is valid
	header   []Field
	trailer  []Field
	status   Status
}

var _ client = (*clientEnd)(nil)

func (c *clientEnd) prepare(ctx context.Context, sh *shard, q *Request) {
	c.request = *q
	if deadline, ok := ctx.Deadline(); ok {
		left := max(time.Until(deadline), 1)
		if c.request.Timeout <= 0 || left < c.request.Timeout {
			c.request.Timeout = left
		}
	}
	if p := q.Parent.end; p != nil && q.Peer == nil {
		c.request.Peer = p.peer
	}
	if c.request.Peer == nil {
		c.request.Peer = sh.relay.process()
	}
	most := q.MaxMessage
	if most <= 0 {
		most = sh.relay.cfg.HTTP2.MaxFirstMessage
	}
	c.init(c, sh, most)
	c.hold = q.Hold
}

// act implements actor.
func (c *clientEnd) act() {
	if c.opened && c.half == nil {
		return // the call has ended
	}
	canceled := c.canceledBy()
	if !c.opened {
		c.opened = true
		c.sh.locals.add(c)
		switch {
		case !c.joinParent():
			c.refuse(Status{Code: codeCanceled, Message: ErrHandleDead.Error(), Local: true})
		case canceled == nil:
			c.open()
		}
	}
	switch {
	case c.over:
	case canceled != nil:
		c.abort(canceled)
	case c.half == nil:
	case c.message == nil:
		c.pass()
	default:
		c.passMessage()
	}
}

func (c *clientEnd) canceledBy() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.canceled
}

// passMessage sends the single message of Unary without a copy.
func (c *clientEnd) passMessage() {
	msg := c.message
	c.message = noMessage
	if len(msg) == 0 {
		return
	}
	h := c.half
	n := len(msg) - frameHeaderLen
	if h.accept(n, 0) != nil {
		h.stream.receive(h, msg, frameHeaderLen, n, true)
	}
}

// noMessage replaces a message after it was sent.
var noMessage = []byte{}

// open starts the stream.
func (c *clientEnd) open() {
	sh := c.sh
	cfg := &sh.relay.cfg
	switch {
	case sh.closed:
		c.refuse(cfg.Responses.Closed)
		return
	case sh.buffered > cfg.Memory.MaxBuffered:
		c.refuse(cfg.Responses.OutOfMemory)
		return
	}
	c.shorten()
	s := sh.newStream()
	c.stream = s
	s.open(c, 0, cfg.HTTP2.StreamWindow, c.head(), false)
	if p := c.request.Parent.end; p != nil && p.group != nil {
		s.payer = p.group
	}
	if int(s.headSize) > cfg.HTTP2.MaxHeaderList || !s.checkRequest() || !s.grpc {
		s.result.Code = codeInternal
		s.finish()
		return
	}
	if c.request.Timeout > 0 {
		s.SetDeadline(c.request.Timeout)
		s.latest = s.deadline
	}
	s.begin()
}

// shorten limits the call to the deadline of its parent, unless the parent was detached.
func (c *clientEnd) shorten() {
	p := c.request.Parent.end
	if p == nil || p.deadline == 0 || p.isDetached() {
		return
	}
	left := max(time.Duration(p.deadline-c.sh.now), 1)
	if c.request.Timeout <= 0 || left < c.request.Timeout {
		c.request.Timeout = left
	}
}

// head returns the request's headers.
func (c *clientEnd) head() *hpack.List {
	sh, q := c.sh, &c.request
	consts := &sh.consts
	head := sh.newList()
	head.Fields = append(head.Fields, consts.post, consts.schemeHTTP, sh.interner.Intern(":path", q.Path),
		sh.interner.Intern(":authority", cmp.Or(q.Authority, accept.DefaultAuthority)))
	typed := false
	for i := range q.Header {
		f := &q.Header[i]
		tag := sh.relay.classify(f.Name, f.Value)
		typed = typed || tag&nameMask == nameContentType
		head.Append(f.Name, f.Value, tag)
	}
	if !typed {
		head.Fields = append(head.Fields, consts.contentType)
	}
	head.Fields = append(head.Fields, consts.te)
	if q.Timeout > 0 {
		var buf [24]byte
		left := string(appendTimeout(buf[:0], q.Timeout))
		head.Append("grpc-timeout", left, classify("grpc-timeout", left))
	}
	return head
}

// abort ends the call on behalf of its user.
func (c *clientEnd) abort(why error) {
	if c.half == nil {
		c.refuse(cancelStatus(why))
		return
	}
	s := c.half.stream
	switch {
	case errors.Is(why, context.DeadlineExceeded):
		s.fail(DeadlineExceeded)
	case errors.Is(why, errRejected):
		s.fail(MessageMalformed)
	}
	if c.half != nil {
		s.canceled(errCancel)
	}
}

func cancelStatus(why error) Status {
	if errors.Is(why, context.DeadlineExceeded) {
		return Status{Code: codeDeadlineExceeded, Message: why.Error(), Local: true}
	}
	return Status{Code: codeCanceled, Message: context.Canceled.Error(), Local: true}
}

// refuse ends a call without a stream.
func (c *clientEnd) refuse(st Status) {
	c.leave()
	c.end(st, nil)
}

// leave removes the call from the shard.
func (c *clientEnd) leave() {
	c.stream = nil
	c.sh.locals.remove(c)
	c.leaveParent()
	if c.stop != nil {
		c.stop()
	}
	c.sh.relay.localGone()
}

func (c *clientEnd) detach(h *half) {
	c.leave()
	c.localEnd.detach(h)
}

// block implements localOwner. It receives the response's headers and trailers.
func (c *clientEnd) block(h *half, list *hpack.List, end bool) {
	status, code, _ := checkResponse(list)
	switch {
	case c.over, status != "" && status[0] == '1':
	case end:
		st := statusOf(list, codeOfEnd(status, code))
		if code < 0 && c.httpCode != 0 {
			st = Status{Code: c.httpCode, Message: notGRPC}
		}
		h.gotEnd = true // further messages of the user have no effect
		c.end(st, keepFields(list))
	default:
		if status != "200" {
			c.httpCode, c.discards = codeOfHTTP(status), true
		}
		c.begun(keepFields(list))
	}
}

// notGRPC is the message for responses without :status 200.
const notGRPC = "the response is not gRPC"

func (c *clientEnd) begun(header []Field) {
	c.mu.Lock()
	c.headed, c.header = true, header
	c.mu.Unlock()
	if !c.unary {
		c.notify(notifyReceiver)
	}
}

// overlong implements localOwner.
func (c *clientEnd) overlong(h *half) { c.failLater(h.stream, MessageTooLarge) }

// ended implements localOwner. It is called for streams that end without a status.
func (c *clientEnd) ended(s *Stream) {
	if c.over {
		return
	}
	st := Status{Code: s.result.Code, Message: "the stream was reset", Local: true}
	switch {
	case c.httpCode != 0:
		st.Code, st.Message = c.httpCode, notGRPC
	case s.result.Failure == DeadlineExceeded:
		st.Message = "the deadline has passed"
	case s.result.Code == codeCanceled:
		st.Message = context.Canceled.Error()
	case s.result.Code == codeOK:
		st.Code, st.Message = codeUnknown, "the response has no status"
	}
	s.down.gotEnd = true
	c.end(st, nil)
}

// end notifies the user of the call's end.
func (c *clientEnd) end(st Status, trailer []Field) {
	c.over = true
	if c.tooLong && st.Code == codeOK { // the remaining data arrived in the same turn
		st = Status{Code: codeResourceExhausted, Message: "a message of the response is longer than the caller " +
			"accepts",
			Local: true}
	}
	c.mu.Lock()
	c.status, c.trailer = st, trailer
	c.mu.Unlock()
	if c.answer != nil {
		c.reply(st, trailer)
	}
	c.close()
}

func (c *clientEnd) relieve() bool { return true }

func (c *clientEnd) overBuffer() bool { return false }

func (c *clientEnd) remote() *Peer { return c.request.Peer }

// ledger implements downstream. The account is requested when the first byte is charged.
func (c *clientEnd) ledger() *ledger {
	if account := c.sh.relay.cfg.Memory.Client; account != nil && c.ungrouped.step == 0 {
		c.ungrouped = ledger{account: account(c.request.Peer), step: connStep}
	}
	return &c.ungrouped
}

func (c *clientEnd) setGroup(g *Group) {
	c.sh.relay.SetGroup(c.request.Peer, g)
}

func (c *clientEnd) messageTimedOut() {}

// RequestValue returns the Value of the Request that started the stream; nil for a stream of a connection.
func (s *Stream) RequestValue() any {
	if c, ok := s.client.(*clientEnd); ok {
		return c.request.Value
	}
	return nil
}

// localEnds is the list of a shard's downstreams in the process.
type localEnds struct {
	first *clientEnd
	count int
}

func (l *localEnds) add(c *clientEnd) {
	c.next, c.prev = l.first, nil
	if c.next != nil {
		c.next.prev = c
	}
	l.first = c
	l.count++
}

func (l *localEnds) remove(c *clientEnd) {
	if c.prev != nil {
		c.prev.next = c.next
	} else {
		l.first = c.next
	}
	if c.next != nil {
		c.next.prev = c.prev
	}
	c.prev, c.next = nil, nil
	l.count--
}

func (l *localEnds) all() []*clientEnd {
	all := make([]*clientEnd, 0, l.count)
	for c := l.first; c != nil; c = c.next {
		all = append(all, c)
	}
	return all
}

// each calls f for each of them. f may end any of them.
func (l *localEnds) each(f func(*clientEnd)) {
	for _, c := range l.all() {
		if c.half != nil {
			f(c)
		}
	}
}
