package relay

import (
	"context"
	"net/http"
	"testing"
)

// answeringLink makes a backend send its next response to each request.
type answeringLink struct {
	fakeLink
	asked chan struct{}
}

func (l *answeringLink) write(pieces [][]byte) (int, error) {
	n, err := l.fakeLink.write(pieces)
	for p := l.out; len(p) > 0; p = p[frameHeaderLen+parseFrameHeader(p).length:] {
		if p[3] == frameHeaders {
			wake(l.asked)
		}
	}
	l.out = l.out[:0]
	return n, err
}

// mostUnaryAllocs is the maximum number of allocations of Unary for a call that is read, charged to a group and
// forwarded.
const mostUnaryAllocs = 0

// TestUnaryAllocates: a call by Unary allocates almost nothing, and releases all the memory that it was charged.
func TestUnaryAllocates(t *testing.T) {
	b := newBare(t)
	account := &testAccount{limit: 1 << 30}
	h := b.sh.relay.handler.(*bareHandler)
	h.group, h.charge = b.sh.relay.NewGroup(nil, account), true
	link := &answeringLink{fakeLink: fakeLink{room: plenty}, asked: make(chan struct{}, 1)}
	b.sh.enter()
	b.back.link = link
	b.sh.leave()
	message := make([]byte, 1024)
	body := append([]byte{0, 0, 0, 4, 0}, message...)
	const calls = 3000
	var responses [calls][]byte
	for i := range responses {
		responses[i] = b.response(nil, body)
		b.next += 2
	}
	answered := make(chan struct{})
	go func() {
		defer close(answered)
		for i := 0; ; i++ {
			if _, more := <-link.asked; !more {
				return
			}
			b.feed(b.back, responses[i])
		}
	}()
	defer func() {
		close(link.asked) // no call is left that sends to it
		<-answered
	}()
	var a Response
	framed := append(make([]byte, Headroom), message...)
	q := Request{
		Path: "/t.T/Echo", Authority: "caps.example.com", Header: []Field{{"x-request-id", "0123456789"}}, Timeout: 1e9,
	}
	ctx := context.Background()
	one := func() {
		b.sh.relay.Unary(ctx, q, framed, &a)
		if a.Status.Code != 0 || len(a.Message) != len(message) {
			t.Fatalf("%d bytes, %+v", len(a.Message), a.Status)
		}
	}
	for range calls / 3 {
		one()
	}
	if got := testing.AllocsPerRun(calls/3, one); got > mostUnaryAllocs {
		t.Errorf("%v allocations a call, not %v at most", got, mostUnaryAllocs)
	}
	b.sh.enter()
	defer b.sh.leave()
	l := &h.group.shards[0].ledger
	if l.held != 0 || b.sh.locals.count != 0 || b.sh.buffered != 0 || account.held != l.reserved {
		t.Errorf("held: %d of the group, %d calls, %d bytes; %d reserved",
			l.held, b.sh.locals.count, b.sh.buffered, account.held)
	}
}

// BenchmarkUnary measures a call of the process to which the Handler replies: the way into a shard and back.
func BenchmarkUnary(b *testing.B) {
	r := New(Config{Shards: 1}, replies{&bareHandler{}}, http.NotFoundHandler())
	defer r.Close()
	var a Response
	framed := make([]byte, Headroom+1000)
	q := Request{Path: "/t.T/Echo", Header: []Field{{"x-request-id", "0123456789"}}}
	b.ReportAllocs()
	for b.Loop() {
		r.Unary(b.Context(), q, framed, &a)
	}
	if a.Status.Code != 0 || len(a.Message) != 1000 {
		b.Fatalf("%d bytes, %+v", len(a.Message), a.Status)
	}
}

// replies replies to each call with 1,000 bytes.
type replies struct{ *bareHandler }

var thousand [1000]byte

func (replies) Headers(s *Stream) { s.Reply(thousand[:]) }
