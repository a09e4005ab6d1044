package relay_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"

	"github.com/capgate/capgate/gateway/relay"
	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/internal/testkit/rawhttp2"
)

// open begins a call inside the process.
func (w *relayed) open(t testing.TB, method string, header ...relay.Field) *relay.ClientStream {
	t.Helper()
	s, err := w.Open(w.ctx, relay.Request{Path: "/t.T/" + method, Authority: "a.example", Header: header})
	check.Must(t, err)
	return s
}

// overdue makes calls that end at their deadlines, each with a longer timeout than the previous one, until reached
// returns true.
func (w *relayed) overdue(t *testing.T, method string, reached func() bool) {
	t.Helper()
	for limit := 20 * time.Millisecond; ; limit *= 2 {
		s, err := w.Open(w.ctx, relay.Request{Path: "/t.T/" + method, Timeout: limit})
		check.Must(t, err)
		wantEnd(t, s, codes.DeadlineExceeded)
		if reached() {
			return
		}
	}
}

// wantEnd reads to the end of a call and checks its code.
func wantEnd(t testing.TB, s *relay.ClientStream, code codes.Code) {
	t.Helper()
	for {
		if _, err := s.Recv(nil); err != nil {
			if !errors.Is(err, io.EOF) {
				t.Fatalf("received %v", err)
			}
			break
		}
	}
	if got := s.Status(); got.Code != uint32(code) {
		t.Fatalf("status %+v, not %v", got, code)
	}
}

func wantMessage(t testing.TB, s *relay.ClientStream, want []byte) {
	t.Helper()
	m, err := s.Recv(nil)
	if err != nil || !bytes.Equal(m.Data, want) {
		t.Fatalf("%d bytes and %v, not %d bytes; status %+v", len(m.Data), err, len(want), s.Status())
	}
}

// TestLocalEveryKind sends messages of all sizes in both directions from inside the process, through every kind of
// handler, to a grpc-go server.
func TestLocalEveryKind(t *testing.T) {
	t.Parallel()
	for name, prepare := range handlers() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newRelayed(t, relay.Config{HTTP2: relay.HTTP2{MaxFirstMessage: 17 << 20}})
			prepare(w.h)
			for _, size := range []int{0, 1, 100, 16<<10 - 5, 16 << 10, 65530, 65535, 65536, 1 << 20} {
				w.localKinds(t, size)
			}
			w.drained(t)
		})
	}
}

func (w *relayed) localKinds(t *testing.T, size int) {
	msg := pattern(1, size)
	framed := append(make([]byte, relay.Headroom), msg...)
	var a relay.Response
	w.Unary(w.ctx, relay.Request{Path: "/t.T/Echo"}, framed, &a)
	if a.Status.Code != 0 || !bytes.Equal(a.Message, msg) {
		t.Fatalf("unary of %d bytes: %d bytes, %+v", size, len(a.Message), a.Status)
	}
	up := w.open(t, "Collect")
	for range 3 {
		check.Must(t, up.Send(relay.Message{Data: msg}))
	}
	up.CloseSend()
	wantMessage(t, up, bytes.Repeat(msg, 3))
	wantEnd(t, up, codes.OK)
	down := w.open(t, "Count")
	check.Must(t, down.Send(relay.Message{Data: fmt.Appendf(nil, "3 %d", size)}))
	down.CloseSend()
	for i := range 3 {
		wantMessage(t, down, pattern(i, size))
	}
	wantEnd(t, down, codes.OK)
	both := w.open(t, "Echo")
	for range 3 {
		check.Must(t, both.Send(relay.Message{Data: msg}))
		wantMessage(t, both, msg)
	}
	both.CloseSend()
	wantEnd(t, both, codes.OK)
}

// drained waits until the relay has no calls.
func (w *relayed) drained(t testing.TB) {
	t.Helper()
	check.Succeeds(t, "the streams to end", func() error {
		if u := w.Usage(); u.Streams != 0 {
			return fmt.Errorf("left: %+v", u)
		}
		return nil
	})

}

// TestLocalStatus: a status arrives with its details, as it does over a connection.
func TestLocalStatus(t *testing.T) {
	t.Parallel()
	w := newRelayed(t, relay.Config{})
	s := w.open(t, "Fail")
	s.CloseSend()
	wantEnd(t, s, codes.FailedPrecondition)
	if st := s.Status(); st.Message != "né %\n" || len(st.Details) == 0 {
		t.Errorf("%+v", st)
	}
	none := w.open(t, "Nothing")
	wantEnd(t, none, codes.Unimplemented)
	w.h.onHeaders(func(s *relay.Stream) { s.Refuse(relay.Status{Code: 16, Message: "who?", Challenge: "Bearer"}) })
	refused := w.open(t, "Echo")
	wantEnd(t, refused, codes.Unauthenticated)
	if st := refused.Status(); st.Message != "who?" || st.Challenge != "Bearer" {
		t.Errorf("%+v", st)
	}
	w.h.onHeaders(func(s *relay.Stream) { s.Reply([]byte("hello")) })
	replied := w.open(t, "Echo")
	wantMessage(t, replied, []byte("hello"))
	wantEnd(t, replied, codes.OK)
}

// TestLocalMetadata: headers and trailers pass in both directions, and the Handler sees the request like any other.
func TestLocalMetadata(t *testing.T) {
	t.Parallel()
	w := newRelayed(t, relay.Config{})
	who := &relay.Peer{}
	w.h.onHeaders(func(s *relay.Stream) {
		timeout, ok := s.Timeout()
		if s.Path() != "/t.T/Meta" || s.Authority() != "a.example" || s.Peer() != who ||
			s.RequestValue() != 7 || !ok || timeout > time.Minute {
			t.Errorf("%q %q %v %v %v; ok %+v", s.Path(), s.Authority(), s.Peer(), s.RequestValue(), timeout, ok)
		}
		s.Forward(w.h.target())
	})
	s, err := w.Open(w.ctx, relay.Request{
		Path: "/t.T/Meta", Authority: "a.example", Peer: who, Value: 7, Timeout: time.Minute,
		Header: []relay.Field{{Name: "x-a", Value: "1"}, {Name: "x-a", Value: "2"}, {Name: "x-b", Value: ""}},
	})
	check.Must(t, err)
	s.CloseSend()
	want := map[string]string{"head-x-a": "12", "head-x-b": ""}
	header, _ := s.Header()
	if got := joined(header); fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("headers %v", got)
	}
	wantEnd(t, s, codes.OK)
	want = map[string]string{"tail-x-a": "12", "tail-x-b": ""}
	if got := joined(s.Trailer()); fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("trailers %v", got)
	}
	if md := w.back.lastMD(); fmt.Sprint(md["x-a"], md["te"], md[":authority"]) != "[1 2] [] [a.example]" {
		t.Errorf("the server got %v", md)
	}
	for _, bad := range []relay.Field{
		{Name: "X-Upper", Value: "1"}, {Name: "connection", Value: "close"}, {Name: "x", Value: "a\nb"},
	} {
		s, err := w.Open(w.ctx, relay.Request{Path: "/t.T/Meta", Header: []relay.Field{bad}})
		check.Must(t, err)
		wantEnd(t, s, codes.Internal)
	}
	long := w.open(t, "Meta", relay.Field{Name: "x", Value: strings.Repeat("x", 70<<10)})
	wantEnd(t, long, codes.Internal)
	w.drained(t)
}

func joined(fields []relay.Field) map[string]string {
	all := map[string]string{}
	for _, f := range fields {
		all[f.Name] += f.Value
	}
	return all
}

// TestLocalCancel cancels calls in every state: before they begin, while the Handler decides, while the server has
// them, and with an exhausted window in either direction.
func TestLocalCancel(t *testing.T) {
	t.Parallel()
	w := newRelayed(t, relay.Config{})
	ctx, cancel := context.WithCancel(w.ctx)
	var parked []relay.Parked
	w.h.onHeaders(func(s *relay.Stream) { parked = append(parked, s.Park()) })
	s, err := w.Open(ctx, relay.Request{Path: "/t.T/Wait"})
	check.Must(t, err)
	check.Must(t, s.Send(relay.Message{Data: []byte("x")}))
	cancel()
	wantEnd(t, s, codes.Canceled)
	told := make(chan *relay.Stream, 1)
	parked[0].Resume(func(s *relay.Stream) { told <- s })
	if check.Received(t, told, "the notice") != nil {
		t.Error("a call was resumed that had ended")
	}
	w.h.onHeaders(nil)
	for _, how := range []string{"Wait", "full up", "full down"} {
		ctx, cancel := context.WithCancel(w.ctx)
		method := map[string]string{"Wait": "Wait", "full up": "Wait", "full down": "Count"}[how]
		s, err := w.Open(ctx, relay.Request{Path: "/t.T/" + method})
		check.Must(t, err)
		switch how {
		case "Wait":
			check.Received(t, w.back.started, "the start of the call at the backend")
			cancel()
			w.back.hasLeft(t)
		case "full up":
			check.Received(t, w.back.started, "the start of the call at the backend")
			go cancel()
			for err == nil {
				err = s.Send(relay.Message{Data: pattern(1, 50_000)})
			}
			if !errors.Is(err, io.EOF) {
				t.Errorf("Send after the end: %v", err)
			}
			w.back.hasLeft(t)
		case "full down":
			check.Must(t, s.Send(relay.Message{Data: []byte("1000 10000")}))
			wantMessage(t, s, pattern(0, 10000))
			cancel()
		}
		wantEnd(t, s, codes.Canceled)
		cancel()
		s.Cancel() // canceled again, after the end
	}
	canceled, cancel := context.WithCancel(w.ctx)
	cancel()
	if _, err := w.Open(canceled, relay.Request{Path: "/t.T/Echo"}); err == nil {
		t.Error("opened with a context that has ended")
	}
	w.drained(t)
	for _, r := range w.h.results(t, 4) {
		if r.Code != uint32(codes.Canceled) || r.Failure != relay.ClientGone {
			t.Errorf("%+v", r)
		}
	}
}

// TestLocalDeadline: a Timeout and a context's deadline end calls in every state, as a client's grpc-timeout does.
func TestLocalDeadline(t *testing.T) {
	t.Parallel()
	w := newRelayed(t, relay.Config{})
	w.overdue(t, "Hold", func() bool { return len(w.back.started) > 0 })
	ctx, cancel := context.WithTimeout(w.ctx, 30*time.Millisecond)
	defer cancel()
	if s, err := w.Open(ctx, relay.Request{Path: "/t.T/Hold"}); err == nil {
		wantEnd(t, s, codes.DeadlineExceeded)
	} else if !errors.Is(err, context.DeadlineExceeded) { // on a busy machine
		t.Error(err)
	}
	w.h.onHeaders(func(s *relay.Stream) {
		s.SetDeadline(time.Hour) // later than the caller's deadline, which still holds
		s.Park()
	})
	var a relay.Response
	w.Unary(w.ctx, relay.Request{Path: "/t.T/Echo", Timeout: 30 * time.Millisecond}, make([]byte, relay.Headroom), &a)
	if a.Status.Code != uint32(codes.DeadlineExceeded) {
		t.Errorf("%+v", a.Status)
	}
	close(w.back.release)
	w.drained(t)
}

// TestLocalAnswersThatAreNone: a response that is not gRPC, or is incomplete, ends the call with an error whatever its
// status says.
func TestLocalAnswersThatAreNone(t *testing.T) {
	t.Parallel()
	message := rawhttp2.Message([]byte("x"))
	for name, test := range map[string]struct {
		say  func(p rawPeer, id uint32) []rawhttp2.Frame
		code codes.Code
	}{
		"a proxy's error": {func(p rawPeer, id uint32) []rawhttp2.Frame {
			return []rawhttp2.Frame{rawhttp2.Headers(id, false, p.Block(":status", "502")),
				rawhttp2.Data(id, true, message)}
		}, codes.Unavailable},
		"half a message": {func(p rawPeer, id uint32) []rawhttp2.Frame {
			return []rawhttp2.Frame{rawhttp2.Headers(id, false,
				p.Block(":status", "200", "content-type", "application/grpc")),
				rawhttp2.Data(id, false, message[:3]), rawhttp2.Headers(id, true, p.Block("grpc-status", "0"))}
		}, codes.Internal},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newRelayed(t, relay.Config{Shards: 1})
			raw := w.rawBackend(t)
			s := w.open(t, "Echo")
			p := raw.accept(t)
			id := p.head(t)
			check.Must(t, p.Write(test.say(p, id)...))
			if m, err := s.Recv(nil); !errors.Is(err, io.EOF) || s.Status().Code != uint32(test.code) {
				t.Errorf("%q, %v, %+v", m.Data, err, s.Status())
			}
			answered := make(chan relay.Response, 1)
			go func() {
				var a relay.Response
				w.Unary(w.ctx, relay.Request{Path: "/t.T/Echo"}, make([]byte, relay.Headroom), &a)
				answered <- a
			}()
			check.Must(t, p.Write(test.say(p, p.head(t))...))
			a := check.Received(t, answered, "the answer")
			if a.Message != nil || a.Status.Code != uint32(test.code) {
				t.Errorf("unary: %q, %+v", a.Message, a.Status)
			}
			w.drained(t)
		})
	}
}

// TestLocalTooLarge: a response message that is longer than the caller accepts ends the call.
func TestLocalTooLarge(t *testing.T) {
	t.Parallel()
	w := newRelayed(t, relay.Config{})
	for _, size := range []int{1001, 60_000, 100_000} {
		s, err := w.Open(w.ctx, relay.Request{Path: "/t.T/Count", MaxMessage: 1000})
		check.Must(t, err)
		check.Must(t, s.Send(relay.Message{Data: fmt.Appendf(nil, "1 %d", size)}))
		s.CloseSend()
		if _, err := s.Recv(nil); !errors.Is(err, io.EOF) || s.Status().Code != uint32(codes.ResourceExhausted) {
			t.Errorf("%d bytes: %v, %+v", size, err, s.Status())
		}
		var a relay.Response
		framed := append(make([]byte, relay.Headroom), fmt.Appendf(nil, "1 %d", size)...)
		w.Unary(w.ctx, relay.Request{Path: "/t.T/Count", MaxMessage: 1000}, framed, &a)
		if a.Status.Code != uint32(codes.ResourceExhausted) {
			t.Errorf("unary, %d bytes: %+v", size, a.Status)
		}
	}
	var a relay.Response
	w.Unary(w.ctx, relay.Request{Path: "/t.T/Count"}, append(make([]byte, relay.Headroom), "2 10"...), &a)
	if a.Status.Code != uint32(codes.Internal) {
		t.Errorf("two messages to Unary: %+v", a.Status)
	}
	w.drained(t)
}
