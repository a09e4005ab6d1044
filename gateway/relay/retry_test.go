package relay_test

import (
	"bytes"
	"errors"
	"fmt"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/capgate/capgate/gateway/relay"
	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/internal/testkit/rawhttp2"
)

// setbacks are the ways in which a backend fails a stream that it may have started.
var setbacks = map[string]struct {
	fail func(t *testing.T, p rawPeer, id uint32)
	want codes.Code // if the stream is not retried
}{
	"connection lost": {func(t *testing.T, p rawPeer, _ uint32) { check.Must(t, p.Close()) }, codes.Unavailable},
	"connection lost after a GOAWAY above it": {func(t *testing.T, p rawPeer, id uint32) {
		check.Must(t, p.Write(rawhttp2.GoAway(id, 0)))
		check.Must(t, p.Close())
	}, codes.Unavailable},
	"connection broken": {func(t *testing.T, p rawPeer, id uint32) {
		check.Must(t, p.Write(rawhttp2.Headers(id+2, true, p.Block(":status", "200"))))
	}, codes.Unavailable},
	"reset": {func(t *testing.T, p rawPeer, id uint32) { check.Must(t, p.Write(rawhttp2.Reset(id, 2))) },
		codes.Internal},
	"UNAVAILABLE": {func(t *testing.T, p rawPeer, id uint32) {
		check.Must(t, p.Write(rawhttp2.Headers(id, true, p.Block(":status", "200", "content-type", "application/grpc",
			"grpc-status", "14", "grpc-message", "busy", "x-why", "just so"))))
	}, codes.Unavailable},
	"UNAVAILABLE after an early hint": {func(t *testing.T, p rawPeer, id uint32) {
		check.Must(t, p.Write(rawhttp2.Headers(id, false, p.Block(":status", "103")),
			rawhttp2.Headers(id, true, p.Block(":status", "200", "content-type", "application/grpc", "grpc-status",
				"14"))))
	}, codes.Unavailable},
	"a proxy's 503": {func(t *testing.T, p rawPeer, id uint32) {
		check.Must(t, p.Write(rawhttp2.Headers(id, true, p.Block(":status", "503"))))
	}, codes.Unavailable},
}

// TestAgain: a stream that its backend may have started is retried at another one from its beginning, if the Handler
// says so. Otherwise it ends with the backend's failure.
func TestAgain(t *testing.T) {
	t.Parallel()
	for name, c := range setbacks {
		for _, again := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s/%v", name, again), func(t *testing.T) {
				t.Parallel()
				w := newRelayed(t, relay.Config{})
				spare := w.h.target()
				raw := w.rawBackend(t)
				w.h.onAgain(func(s *relay.Stream, _ relay.Answer) bool { return again && s.Path() == "/t.T/Echo" })
				w.h.onUnsent(func(s *relay.Stream, err error) {
					if !errors.Is(err, relay.ErrLost) {
						t.Errorf("Unsent: %v", err)
					}
					s.Forward(spare)
				})
				ctx := metadata.AppendToOutgoingContext(w.ctx, "x-call-id", "1")
				s := stream(ctx, t, w.cc, "Echo")
				check.Must(t, send(s, pattern(1, 50_000))) // the request has not ended yet
				p := raw.accept(t)
				id := p.head(t)
				c.fail(t, p, id)
				if !again {
					if _, err := recv(s); status.Code(err) != c.want {
						t.Errorf("ended with %v", err)
					}
					return
				}
				check.Must(t, send(s, []byte("more")))
				for _, want := range [][]byte{pattern(1, 50_000), []byte("more")} {
					if got, err := recv(s); err != nil || !bytes.Equal(got, want) {
						t.Fatalf("%d bytes, %v", len(got), err)
					}
				}
				check.Must(t, s.CloseSend())
				if _, err := recv(s); status.Code(endOf(err)) != codes.OK {
					t.Error(err)
				}
				if n := w.back.count("1"); n != 1 {
					t.Errorf("the other backend got %d calls", n)
				}
				if r := w.h.results(t, 1)[0]; r.Failure != relay.NoFailure || r.Code != 0 || !r.Upstream {
					t.Errorf("result %+v", r)
				}
			})
		}
	}
}

// TestAgainTooLate: Again is not called if a response has begun, or if the request was not kept.
func TestAgainTooLate(t *testing.T) {
	t.Parallel()
	head := []string{":status", "200", "content-type", "application/grpc"}
	for name, c := range map[string]struct {
		cfg  relay.Config
		fail func(t *testing.T, p rawPeer, id uint32)
	}{
		"connection lost after the headers": {relay.Config{}, func(t *testing.T, p rawPeer, id uint32) {
			check.Must(t, p.Write(rawhttp2.Headers(id, false, p.Block(head...))))
			check.Must(t, p.Close())
		}},
		"UNAVAILABLE after the headers": {relay.Config{}, func(t *testing.T, p rawPeer, id uint32) {
			check.Must(t, p.Write(rawhttp2.Headers(id, false, p.Block(head...)),
				rawhttp2.Headers(id, true, p.Block("grpc-status", "14"))))
		}},
		"UNAVAILABLE and a large request": {relay.Config{Forwarding: relay.Forwarding{MaxReplay: 1000}},
			func(t *testing.T, p rawPeer, id uint32) {
				check.Must(t, p.Write(rawhttp2.Headers(id, true, p.Block(append(head, "grpc-status", "14")...))))
			}},
		"connection lost and a large request": {relay.Config{Forwarding: relay.Forwarding{MaxReplay: 1000}},
			func(t *testing.T, p rawPeer, _ uint32) { check.Must(t, p.Close()) }},
		"another status": {relay.Config{}, func(t *testing.T, p rawPeer, id uint32) {
			check.Must(t, p.Write(rawhttp2.Headers(id, true, p.Block(append(head, "grpc-status", "13")...))))
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newRelayed(t, c.cfg)
			raw := w.rawBackend(t)
			w.h.onAgain(func(*relay.Stream, relay.Answer) bool { t.Error("asked"); return false })
			s := stream(w.ctx, t, w.cc, "Echo")
			check.Must(t, send(s, pattern(1, 5000)))
			check.Must(t, s.CloseSend())
			p := raw.accept(t)
			id := p.head(t)
			p.body(t, id)
			c.fail(t, p, id)
			if _, err := recv(s); status.Code(err) != codes.Unavailable && status.Code(err) != codes.Internal {
				t.Errorf("ended with %v", err)
			}
		})
	}
}

// TestAgainSeesTheAnswer: the Handler sees the trailers of the response. If it does not retry, the client gets them
// unchanged.
func TestAgainSeesTheAnswer(t *testing.T) {
	t.Parallel()
	w := newRelayed(t, relay.Config{})
	raw := w.rawBackend(t)
	seen := make(chan string, 1)
	w.h.onAgain(func(_ *relay.Stream, a relay.Answer) bool {
		details, _ := a.Trailer("grpc-status-details-bin")
		_, other := a.Trailer("x-none")
		seen <- fmt.Sprint(a.Given, details, other)
		return false
	})
	s := stream(w.ctx, t, w.cc, "Echo")
	p := raw.accept(t)
	id := p.head(t)
	check.Must(t, p.Write(rawhttp2.Headers(id, true, p.Block(":status", "200", "content-type", "application/grpc",
		"grpc-status", "14", "grpc-message", "busy%21", "grpc-status-details-bin", "CA4SBWJ1c3kh", "x-why",
		"just so"))))
	_, err := recv(s)
	if st := status.Convert(err); st.Code() != codes.Unavailable || st.Message() != "busy!" {
		t.Error(err, st)
	}
	if got := check.Received(t, seen, "the call"); got != "true"+"CA4SBWJ1c3kh"+"false" {
		t.Error(got)
	}
	if why := s.Trailer().Get("x-why"); len(why) != 1 || why[0] != "just so" {
		t.Errorf("trailers %v; why %+v", s.Trailer(), why)
	}
}

// TestAgainWithoutClient: streams are not retried if their client has canceled them, or if the relay stops.
func TestAgainWithoutClient(t *testing.T) {
	t.Parallel()
	w := newRelayed(t, relay.Config{})
	raw := w.rawBackend(t)
	w.h.onAgain(func(*relay.Stream, relay.Answer) bool { return true })
	w.h.onUnsent(func(s *relay.Stream, _ error) { s.Forward(w.h.target()) })
	s := stream(w.ctx, t, w.cc, "Echo")
	check.Must(t, send(s, pattern(1, 100)))
	p := raw.accept(t)
	p.head(t)
	w.Close()
	if _, err := recv(s); status.Code(err) != codes.Unavailable {
		t.Errorf("ended with %v", err)
	}
	if r := w.h.results(t, 1)[0]; r.Failure != relay.ClientGone {
		t.Errorf("result %+v", r)
	}
}
