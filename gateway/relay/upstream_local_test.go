package relay_test

import (
	"bytes"
	"context"
	"errors"
	"syscall"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/capgate/capgate/gateway/relay"
	"github.com/capgate/capgate/internal/testkit/check"
)

// echoServed sends back the messages that it receives.
func echoServed(s *relay.ServerStream) relay.Status {
	var buf []byte
	for {
		m, err := s.Recv(buf)
		if err != nil {
			return relay.Status{}
		}
		if s.Send(m) != nil {
			return relay.Status{Code: uint32(codes.Canceled)}
		}
		buf = m.Data
	}
}

// TestLocalUpstream: code in the process serves as a backend, and its response counts as that of an upstream.
func TestLocalUpstream(t *testing.T) {
	t.Parallel()
	w := newRelayed(t, relay.Config{})
	local := w.NewUpstream(relay.UpstreamConfig{Serve: echoServed})
	if !local.Local() {
		t.Error("an upstream with a handler is not local")
	}
	if w.h.target().Local() {
		t.Error("the upstream of an address is local")
	}
	w.h.to(local)
	s := stream(w.ctx, t, w.cc, "Echo")
	for _, size := range []int{0, 10, 100_000} {
		check.Must(t, send(s, pattern(1, size)))
		if got, err := recv(s); err != nil || !bytes.Equal(got, pattern(1, size)) {
			t.Fatalf("%d bytes, %v", len(got), err)
		}
	}
	check.Must(t, s.CloseSend())
	if _, err := recv(s); status.Code(endOf(err)) != codes.OK {
		t.Error(err)
	}
	if r := w.h.results(t, 1)[0]; r.Code != 0 || !r.Upstream || r.Forwarded == 0 || r.FirstByte == 0 {
		t.Errorf("result %+v", r)
	}
	local.Close()
	w.drained(t)
}

// TestLocalUpstreamUnsent: a stream that a local upstream has not started, or has failed, is retried elsewhere with the
// whole request.
func TestLocalUpstreamUnsent(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		status relay.Status
		again  bool
	}{
		"not started":         {relay.Status{Unsent: syscall.ECONNREFUSED}, false},
		"failed, and may run": {relay.Status{Code: uint32(codes.Unavailable)}, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newRelayed(t, relay.Config{})
			spare := w.h.target()
			w.h.to(w.NewUpstream(relay.UpstreamConfig{Serve: func(s *relay.ServerStream) relay.Status {
				_, _ = s.Recv(nil)
				return c.status
			}}))
			w.h.onAgain(func(*relay.Stream, relay.Answer) bool { return c.again })
			unsent := make(chan error, 1)
			w.h.onUnsent(func(s *relay.Stream, err error) {
				unsent <- err
				s.Forward(spare)
			})
			s := stream(metadata.AppendToOutgoingContext(w.ctx, "x-call-id", "1"), t, w.cc, "Echo")
			check.Must(t, send(s, pattern(1, 50_000)))
			if got, err := recv(s); err != nil || !bytes.Equal(got, pattern(1, 50_000)) {
				t.Fatalf("%d bytes, %v", len(got), err)
			}
			check.Must(t, s.CloseSend())
			if _, err := recv(s); status.Code(endOf(err)) != codes.OK {
				t.Error(err)
			}
			if err := check.Received(t, unsent, "the end of the unsent call"); !c.again &&
				!errors.Is(err, syscall.ECONNREFUSED) || c.again && !errors.Is(err, relay.ErrLost) {
				t.Error(err)
			}
			if n := w.back.count("1"); n != 1 {
				t.Errorf("the other backend got %d calls", n)
			}
			w.drained(t)
		})
	}
}

// TestLocalUpstreamBegun: Unsent has no effect once a response has begun, or if the server does not stand for an
// upstream.
func TestLocalUpstreamBegun(t *testing.T) {
	t.Parallel()
	w := newRelayed(t, relay.Config{})
	w.h.onUnsent(func(s *relay.Stream, err error) {
		t.Errorf("Unsent: %v", err)
		s.Refuse(relay.Status{Code: uint32(codes.Internal)})
	})
	w.h.to(w.NewUpstream(relay.UpstreamConfig{Serve: func(s *relay.ServerStream) relay.Status {
		_ = s.Send(relay.Message{Data: []byte("a")})
		return relay.Status{Code: uint32(codes.Aborted), Unsent: syscall.ECONNREFUSED}
	}}))
	s := stream(w.ctx, t, w.cc, "Echo")
	if got, err := recv(s); err != nil || string(got) != "a" {
		t.Fatalf("%q, %v", got, err)
	}
	if _, err := recv(s); status.Code(err) != codes.Aborted {
		t.Error(err)
	}
	w.h.onHeaders(func(s *relay.Stream) {
		s.Serve(func(*relay.ServerStream) relay.Status {
			return relay.Status{Code: uint32(codes.Aborted), Unsent: syscall.ECONNREFUSED}
		})
	})
	if _, err := recv(stream(w.ctx, t, w.cc, "Echo")); status.Code(err) != codes.Aborted {
		t.Error(err)
	}
	w.drained(t)
}

// TestLocalUpstreamCancel: the end of a call ends the context of a local upstream.
func TestLocalUpstreamCancel(t *testing.T) {
	t.Parallel()
	w := newRelayed(t, relay.Config{})
	began, ended := make(chan struct{}), make(chan error, 1)
	w.h.to(w.NewUpstream(relay.UpstreamConfig{Serve: func(s *relay.ServerStream) relay.Status {
		close(began)
		<-s.Context().Done()
		ended <- s.Context().Err()
		return relay.Status{Code: uint32(codes.Canceled)}
	}}))
	ctx, cancel := context.WithCancel(w.ctx)
	s := stream(ctx, t, w.cc, "Echo")
	check.Must(t, send(s, nil))
	check.Received(t, began, "the start")
	cancel()
	if err := check.Received(t, ended, "the end of the call"); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	w.drained(t)
}
