package relay

import (
	"context"
	"errors"
	"io"
	"slices"
	"sync"
	"testing"
)

// serveByHand does the work of Stream.Serve without its goroutine.
func serveByHand(s *Stream) *ServerStream {
	v := &ServerStream{}
	s.upstream = nil
	v.end.serve(s)
	s.startOn(&v.end, 0, s.sh.relay.cfg.HTTP2.StreamWindow)
	return v
}

// localFuzz is a shard with a connection of each kind, with calls that begin in the process and calls that the process
// serves.
type localFuzz struct {
	h            *fuzzHandler
	client, back *conn
	calls        []*ClientStream

	mu     sync.Mutex // guards served, to which a timer's goroutine may add at a tick of the shard
	served []*ServerStream
}

// add serves a stream.
func (f *localFuzz) add(s *Stream) {
	v := serveByHand(s)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.served = append(f.served, v)
}

// servers returns the streams served so far.
func (f *localFuzz) servers() []*ServerStream {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.served)
}

// do takes one step with the bytes p.
func (f *localFuzz) do(op byte, p []byte) {
	pick := len(p)
	switch op & 7 {
	case 0:
		feedAll(f.client, p)
	case 1:
		feedAll(f.back, p)
	case 2:
		paths := []string{"/x", "/read", "/reply", "/again", "/serve", "/serve", "/serve"}
		q := Request{Path: paths[pick%len(paths)], MaxMessage: 3000}
		if served := f.servers(); len(served) > 0 && op&8 != 0 {
			q.Parent, q.continues = served[len(served)-1].Handle(), op&16 != 0
		}
		if len(p) > 20 {
			q.Header = []Field{{"x-any", string(p)}}
		}
		if c, err := f.client.sh.relay.Open(context.Background(), q); err == nil {
			f.calls = append(f.calls, c)
		}
	case 3, 4, 5:
		if len(f.calls) > 0 {
			f.call(op, f.calls[pick%len(f.calls)], p)
		}
	default:
		if served := f.servers(); len(served) > 0 {
			f.serve(op, served[pick%len(served)], p)
		}
	}
}

// call makes the caller of a call take one step.
func (f *localFuzz) call(op byte, c *ClientStream, p []byte) {
	e := &c.end
	switch op & 7 {
	case 3:
		_, _, _ = e.sendSome(appendUint32([]byte{op >> 7}, uint32(len(p))), p, op&8 != 0)
		e.sh.post(&e.event)
	case 4:
		if op&8 != 0 {
			c.Cancel()
		} else {
			c.CloseSend()
		}
	case 5:
		if _, tell, _ := e.take(nil); tell {
			e.sh.post(&e.event)
		}
	}
}

// serve makes the function that serves a call take one step.
func (f *localFuzz) serve(op byte, v *ServerStream, p []byte) {
	e := &v.end
	switch {
	case op&8 == 0:
		v.end.setHeader(nil)
		_, _, _ = e.sendSome(appendUint32([]byte{0}, uint32(len(p))), p, false)
		e.sh.post(&e.event)
	case op&16 == 0:
		if _, tell, _ := e.take(nil); tell {
			e.sh.post(&e.event)
		}
	case op&32 == 0:
		_ = v.SendHeader(Field{"x-any", string(p)})
	default:
		_ = v.SetTrailer(Field{"x-any", string(p)})
		e.mu.Lock()
		e.reply.ended, e.reply.status = true, Status{Code: uint32(len(p) % 20), Message: string(p)}
		e.mu.Unlock()
		e.sh.post(&e.event)
	}
}

// FuzzLocal: calls that begin in the process, and calls that it serves, take any steps, between connections that send
// any bytes. The relay must not panic, must report every stream, and must hold nothing once all have ended.
func FuzzLocal(f *testing.F) {
	hello := frames(nil).add(frameSettings, 0, 0, nil)
	answer := append(frames{}, hello...).headers(1, false, ":status", "200", "content-type", "application/grpc").
		add(frameData, 0, 1, append([]byte{0, 0, 0, 0, 5}, "hello"...)).headers(1, true, "grpc-status", "0")
	steps := func(ops ...string) (out []byte) {
		for _, op := range ops {
			out = append(append(out, op[0], byte(len(op)-1)), op[1:]...)
		}
		return out
	}
	op := func(op byte, p string) string { return string(op) + p }
	f.Add(steps(op(2, ""), op(3, "hello"), op(1, string(answer)), op(5, ""), op(5, "")))
	f.Add(steps(op(2, "four"), op(3, "hello"), op(6+16*0+8, ""), op(6, "world"), op(6+8+16+32, ""), op(5, ""),
		op(5, "")))
	f.Add(steps(op(2, "four"), op(2+8+16, "four"), op(2+8, ""), op(6+8+16+32, ""), op(4, "a"), op(4+8, "")))
	f.Fuzz(func(t *testing.T, data []byte) {
		z := &localFuzz{}
		z.h, z.client, z.back = fuzzRelay(t, Config{HTTP2: HTTP2{MaxFirstMessage: 5000},
			Forwarding: Forwarding{MaxReplay: 500}, Memory: Memory{MaxBuffered: 30_000}})
		z.h.serve = z.add
		feedAll(z.client, []byte(preface))
		for len(data) > 1 {
			n := min(int(data[1]), len(data)-2)
			z.do(data[0], data[2:2+n])
			data = data[2+n:]
		}
		for _, c := range z.calls {
			c.Cancel()
		}
		for _, c := range []*conn{z.client, z.back} {
			checkFrames(t, c)
			c.sh.enter()
			c.lost(io.EOF)
			c.sh.leave()
		}
		for _, c := range z.calls {
			for {
				_, _, err := c.end.take(nil)
				if errors.Is(err, errNotYet) {
					t.Fatalf("a call does not end: opened %v, attached %v, over %v", c.end.opened, c.end.half != nil,
						c.end.over)
				}
				if err != nil {
					break
				}
			}
		}
		for _, v := range z.servers() {
			v.end.cancel()
		}
		sh := z.client.sh
		sh.enter()
		defer sh.leave()
		if z.h.asked != z.h.done || sh.buffered != 0 || sh.locals.count != 0 || z.client.heads+z.client.held != 0 {
			t.Errorf("%d streams asked for, %d done, %d left, %d bytes held, %d by the client",
				z.h.asked, z.h.done, sh.locals.count, sh.buffered, z.client.heads+z.client.held)
		}
		for _, v := range z.servers() {
			if v.end.half != nil || v.end.counted != 0 || v.end.children.first != nil {
				t.Errorf("a served call is left: %d bytes", v.end.counted)
			}
		}
	})
}
