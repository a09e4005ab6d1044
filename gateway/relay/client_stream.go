package relay

import (
	"context"
	"errors"
	"io"
)

// ClientStream is a call started by Open. One goroutine may receive while another sends.
type ClientStream struct {
	ctx context.Context //nolint:containedctx // of the call, as grpc.ClientStream has it
	end clientEnd
}

// Open starts a call inside the process. The Handler, flow control, deadlines and memory limits apply as to any other
// call. Open does not block. Failures of the call, including those that prevent its start, are reported by Recv and
// Status; the error is for invalid requests.
//
// The call ends when Recv returns an error, when ctx ends, or with Cancel. One of these must happen.
func (r *Relay) Open(ctx context.Context, q Request) (*ClientStream, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if len(q.Path) == 0 || q.Path[0] != '/' {
		return nil, errors.New("relay: the path of a request must begin with /")
	}
	sh, err := r.shardOf(&q)
	if err != nil {
		return nil, err
	}
	s := &ClientStream{ctx: ctx}
	c := &s.end
	c.prepare(ctx, sh, &q)
	if ctx.Done() != nil {
		c.stop = context.AfterFunc(ctx, func() { c.cancel(ctx.Err()) })
	}
	c.sh.post(&c.event)
	return s, nil
}

// shardOf returns the shard for a call. A subrequest uses that of its parent.
func (r *Relay) shardOf(q *Request) (*shard, error) {
	p := q.Parent.end
	if p == nil {
		return r.shard(), nil
	}
	return p.sh, p.beget(q.continues)
}

// Context returns the context of Open.
func (s *ClientStream) Context() context.Context { return s.ctx }

// Send sends a message, which it does not retain. It blocks while flow control requires. The error io.EOF means that
// the call has ended, and Recv returns how.
func (s *ClientStream) Send(m Message) error { return s.end.send(m, false) }

// CloseSend ends the sequence of messages.
func (s *ClientStream) CloseSend() { s.end.closeSend() }

// Recv waits for the next message, which it stores in buf if it fits. It returns io.EOF at the end of the call: Status
// then returns the result, and only code OK means that all messages were received.
func (s *ClientStream) Recv(buf []byte) (Message, error) {
	m, err := s.end.receive(buf)
	if errors.Is(err, io.ErrUnexpectedEOF) {
		s.end.cutOff()
		err = io.EOF
	}
	return m, err
}

// Header waits for the response's headers. If come is false, the call ended without headers. content-type is only
// included if it is not application/grpc. Header must be called by the receiving goroutine.
func (s *ClientStream) Header() (header []Field, come bool) {
	for {
		header, come, ok := s.end.headers()
		if ok {
			return header, come
		}
		<-s.end.readable
	}
}

// Ready reports whether Recv returns at once.
func (s *ClientStream) Ready() bool { return s.end.ready() }

// Status returns the result of the call, after Recv has returned io.EOF.
func (s *ClientStream) Status() Status {
	s.end.mu.Lock()
	defer s.end.mu.Unlock()
	return s.end.status
}

// Trailer returns the response's trailers except those in Status, after Recv has returned io.EOF.
func (s *ClientStream) Trailer() []Field {
	s.end.mu.Lock()
	defer s.end.mu.Unlock()
	return s.end.trailer
}

// Cancel ends the call. It may be called at any time, repeatedly.
func (s *ClientStream) Cancel() { s.end.cancel(context.Canceled) }

// Reject ends the call with MessageMalformed, because its client sent a malformed message.
func (s *ClientStream) Reject() { s.end.cancel(errRejected) }

var errRejected = errors.New("relay: malformed message")

// headers returns the headers. ok is false as long as they may still arrive.
func (c *clientEnd) headers() (header []Field, come, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.header, c.headed, c.headed || c.inEnd
}

// cutOff notes that the last message was truncated.
func (c *clientEnd) cutOff() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.status.Code == codeOK {
		c.status = Status{Code: codeInternal, Message: "the response ends within a message", Local: true}
	}
}
