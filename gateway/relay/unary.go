package relay

import (
	"context"
	"runtime"
	"sync"
)

// Response is the result of a call by Unary. Its caller owns it, and may reuse it for another call.
type Response struct {
	Status     Status // OK means that there is a message
	Message    []byte // in the Response's own memory, valid until it is reused
	Compressed bool
	Header     []Field // except content-type: application/grpc
	Trailer    []Field // except the fields in Status

	buf []byte
}

// Reset clears the response for reuse, and overwrites its data. It keeps at most most bytes of memory.
func (a *Response) Reset(most int) {
	clear(a.buf)
	if cap(a.buf) > most {
		a.buf = nil
	}
	*a = Response{buf: a.buf[:0]}
}

// Headroom is the number of bytes before a message for Unary, which the relay uses.
const Headroom = frameHeaderLen + prefixLen

// unaryEnds pools each clientEnd of Unary.
var unaryEnds = sync.Pool{New: func() any { return new(clientEnd) }}

// Unary makes a call with one message in each direction, and waits for its result in a. msg is not compressed, has
// Headroom bytes before the message, and belongs to the relay until Unary returns. The call is the same as that of
// Open, but costs less: it needs one event to its shard and one signal back.
func (r *Relay) Unary(ctx context.Context, q Request, msg []byte, a *Response) {
	a.Status, a.Message, a.Compressed, a.Header, a.Trailer = Status{}, nil, false, nil, nil
	sh, err := r.shardOf(&q)
	if err != nil {
		a.Status = Status{Code: codeCanceled, Message: err.Error(), Local: true}
		return
	}
	if len(msg)-frameHeaderLen > maxFrame {
		sh.unaryLong(ctx, q, msg[Headroom:], a)
		return
	}
	c := unaryEnds.Get().(*clientEnd)
	c.prepareUnary(ctx, sh, &q, a)
	msg[frameHeaderLen] = 0
	putUint32(msg[frameHeaderLen+1:], uint32(len(msg)-Headroom))
	c.message = msg
	// Other runnable goroutines go first, so that one turn takes the calls of many. The first time, the inbox has no
	// event yet: a connection in its turn would write this call alone.
	runtime.Gosched()
	sh.push(&c.event)
	runtime.Gosched()
	sh.tryDrain()
	if wait, ok := WaitIn(ctx, c); ok {
		<-c.readable
		if !wait.End() { // otherwise an event of cancel may still be in the inbox
			c.forget()
			unaryEnds.Put(c)
		}
		return
	}
	select {
	case <-c.readable:
		c.forget()
		unaryEnds.Put(c)
	case <-ctx.Done():
		c.cancel(ctx.Err())
		<-c.readable // the event may still be in the inbox, so the end is not reused
	}
}

// unaryLong is Unary for a message that is sent in several frames.
func (sh *shard) unaryLong(ctx context.Context, q Request, msg []byte, a *Response) {
	c := &clientEnd{}
	c.prepareUnary(ctx, sh, &q, a)
	defer context.AfterFunc(ctx, func() { c.cancel(ctx.Err()) })()
	_ = c.send(Message{Data: msg}, true) // io.EOF if the response was sent before
	<-c.readable
}

func (c *clientEnd) prepareUnary(ctx context.Context, sh *shard, q *Request, a *Response) {
	c.prepare(ctx, sh, q)
	c.unary, c.answer = true, a
	c.in.buf = a.buf[:0]
}

// forget prepares a clientEnd of Unary for another call.
func (c *clientEnd) forget() {
	*c = clientEnd{localEnd: localEnd{readable: c.readable, writable: c.writable, out: c.out, spare: c.spare}}
}

// cancel ends the call on behalf of its user. The first reason applies.
func (c *clientEnd) cancel(why error) {
	c.mu.Lock()
	if c.canceled == nil {
		c.canceled = why
	}
	c.mu.Unlock()
	c.sh.post(&c.event)
}

// Interrupt implements Waiter. The end of the call ends the wait.
func (c *clientEnd) Interrupt() { c.cancel(context.Canceled) }

// reply completes the Response of Unary.
func (c *clientEnd) reply(st Status, trailer []Field) {
	a := c.answer
	c.answer = nil
	a.Status, a.Header, a.Trailer, a.buf = st, c.header, trailer, c.in.buf
	c.in = byteQueue{}
	if st.Code != codeOK {
		return
	}
	p := a.buf
	if len(p) < prefixLen || len(p)-prefixLen != int(be32(p[1:])) {
		a.Status = Status{Code: codeInternal, Message: "the response is not a single message", Local: true}
		return
	}
	a.Message, a.Compressed = p[prefixLen:], p[0] != 0
}
