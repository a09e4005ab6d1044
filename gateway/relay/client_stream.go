package relay

import (
	"context"
	"errors"
	"io"
)

// ClientStream is a call that was begun by Open, as its caller has it. One goroutine may receive while another sends.
type ClientStream struct {
	ctx context.Context //nolint:containedctx // of the call, as grpc.ClientStream has it
	end clientEnd
}

// Open begins a call inside the process: the Handler decides about it as about any other, and it has the flow control,
// the deadline and the bounds on memory of any other. It does not wait. Every failure, also one that prevents the call
// from beginning, is told by Recv and Status; the error is for requests that cannot be made at all.
//
// The call is over when Recv has returned an error, when ctx has ended, or after Cancel. One of these has to happen.
func (r *Relay) Open(ctx context.Context, q Request) (*ClientStream, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if len(q.Path) == 0 || q.Path[0] != '/' {
		return nil, errors.New("relay: the path of a request begins with /")
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

// shardOf is where a call is to be: with its parent, if it may have that.
func (r *Relay) shardOf(q *Request) (*shard, error) {
	p := q.Parent.end
	if p == nil {
		return r.shard(), nil
	}
	return p.sh, p.beget(q.continues)
}

// Context is Open's.
func (s *ClientStream) Context() context.Context { return s.ctx }

// Send sends a message, which it does not keep. It waits while the other side does not take more. Its error is io.EOF:
// the call has ended, and Recv knows how.
func (s *ClientStream) Send(m Message) error { return s.end.send(m, false) }

// CloseSend says that no message follows.
func (s *ClientStream) CloseSend() { s.end.closeSend() }

// Recv waits for the next message, which it puts into buf where there is room. It returns io.EOF when the call has
// ended: Status says how, and only the code OK means that all messages have come.
func (s *ClientStream) Recv(buf []byte) (Message, error) {
	m, err := s.end.receive(buf)
	if errors.Is(err, io.ErrUnexpectedEOF) {
		s.end.cutOff()
		err = io.EOF
	}
	return m, err
}

// Header waits for the response's headers. They have not come, and come is false, when the call has ended without.
// content-type is among them only if it is not application/grpc. It is for the goroutine that receives.
func (s *ClientStream) Header() (header []Field, come bool) {
	for {
		header, come, ok := s.end.headers()
		if ok {
			return header, come
		}
		<-s.end.readable
	}
}

// Status is how the call ended, after Recv has returned io.EOF.
func (s *ClientStream) Status() Status {
	s.end.mu.Lock()
	defer s.end.mu.Unlock()
	return s.end.status
}

// Trailer returns the response's trailers without those that are in Status, after Recv has returned io.EOF.
func (s *ClientStream) Trailer() []Field {
	s.end.mu.Lock()
	defer s.end.mu.Unlock()
	return s.end.trailer
}

// Cancel ends the call. It may be called at any time, and more than once.
func (s *ClientStream) Cancel() { s.end.cancel(context.Canceled) }

// headers is not ok as long as they may still come.
func (c *clientEnd) headers() (header []Field, come, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.header, c.headed, c.headed || c.inEnd
}

// cutOff notes that the last message was not whole.
func (c *clientEnd) cutOff() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.status.Code == codeOK {
		c.status = Status{Code: codeInternal, Message: "the response ends within a message", Local: true}
	}
}
