package relay

import (
	"context"
	"runtime"
	"sync"
)

// Response is what became of a call by Unary. It is its caller's, and can be used again for another call.
type Response struct {
	Status     Status // OK: there is a message
	Message    []byte // in Response's own memory, until it is used again
	Compressed bool
	Header     []Field // but for content-type: application/grpc
	Trailer    []Field // but for what is in Status

	buf []byte
}

// Reset forgets the call, whose data is gone after it. Memory of more than most bytes is not kept.
func (a *Response) Reset(most int) {
	clear(a.buf)
	if cap(a.buf) > most {
		a.buf = nil
	}
	*a = Response{buf: a.buf[:0]}
}

// Headroom is how many bytes a message that is given to Unary has before it, for what the relay puts there.
const Headroom = frameHeaderLen + prefixLen

// unaryEnds pools each clientEnd of Unary.
var unaryEnds = sync.Pool{New: func() any { return new(clientEnd) }}

// Unary makes a call of one message each way, and waits for its end: by Response.Status, whatever it is. msg is not
// compressed, has Headroom bytes before the message, and is the relay's until Unary returns. The call is that of Open,
// and costs less: one event takes it to its shard, and one signal brings it back.
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
	// Others that can run go first, so that one turn takes the calls of many. The first time, no event is in the inbox
	// yet: a connection that has its turn meanwhile would write it alone.
	runtime.Gosched()
	sh.push(&c.event)
	runtime.Gosched()
	sh.tryDrain()
	select {
	case <-c.readable:
		c.forget()
		unaryEnds.Put(c)
	case <-ctx.Done():
		c.cancel(ctx.Err())
		<-c.readable // the event may be in the inbox still: the end is not used again
	}
}

// unaryLong is Unary for a message that is sent in several frames.
func (sh *shard) unaryLong(ctx context.Context, q Request, msg []byte, a *Response) {
	c := &clientEnd{}
	c.prepareUnary(ctx, sh, &q, a)
	defer context.AfterFunc(ctx, func() { c.cancel(ctx.Err()) })()
	_ = c.send(Message{Data: msg}, true) // io.EOF: it was answered before
	<-c.readable
}

func (c *clientEnd) prepareUnary(ctx context.Context, sh *shard, q *Request, a *Response) {
	c.prepare(ctx, sh, q)
	c.unary, c.answer = true, a
	c.in.buf = a.buf[:0]
}

// forget makes a clientEnd of Unary ready for another call.
func (c *clientEnd) forget() {
	*c = clientEnd{localEnd: localEnd{readable: c.readable, writable: c.writable, out: c.out, spare: c.spare}}
}

// cancel ends the call for its user.
func (c *clientEnd) cancel(why error) {
	c.mu.Lock()
	c.canceled = why
	c.mu.Unlock()
	c.sh.post(&c.event)
}

// reply completes the Response of Unary.
func (c *clientEnd) reply(st Status, trailer []Field) {
	a := c.answer
	c.answer = nil
	a.Status, a.Header, a.Trailer, a.buf = st, c.header, trailer, c.in.buf
	c.in = queue{}
	if st.Code != codeOK {
		return
	}
	p := a.buf
	if len(p) < prefixLen || len(p)-prefixLen != int(be32(p[1:])) {
		a.Status = Status{Code: codeInternal, Message: "the response is not one message", Local: true}
		return
	}
	a.Message, a.Compressed = p[prefixLen:], p[0] != 0
}
