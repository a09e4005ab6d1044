package stream_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"
	"time"

	"github.com/capgate/capgate/gateway/frontdoor/bodybudget"
	"github.com/capgate/capgate/gateway/frontdoor/stream"
	"github.com/capgate/capgate/internal/testkit/check"
)

// steps is a response that records what is done with it.
type steps struct {
	http.ResponseWriter
	done []string
	fail error // of a flush
}

func (s *steps) Write(p []byte) (int, error) {
	s.done = append(s.done, string(p))
	return len(p), nil
}

func (s *steps) FlushError() error {
	s.done = append(s.done, "flush")
	return s.fail
}

func (s *steps) SetWriteDeadline(at time.Time) error {
	if at.IsZero() {
		s.done = append(s.done, "end")
	}
	return nil
}

// TestPiecesAreFlushed: each piece is sent at once, the first one with the head and the prelude. A flush that fails
// ends the stream: nothing is written after it.
func TestPiecesAreFlushed(t *testing.T) {
	t.Parallel()
	out := &steps{ResponseWriter: httptest.NewRecorder()}
	w := &stream.Writer{Out: bodybudget.WriteTimeout(out, time.Minute), Type: stream.Lines, Cache: "no-store",
		Prelude: "p", Late: func() { out.Header().Set("X-Late", "1") }}
	if w.Begun() || len(out.Header()) > 0 {
		t.Error("it begins before its first piece")
	}
	check.Must(t, w.Send([]byte("a")))
	check.Must(t, w.Send([]byte("b")))
	w.End()
	if want := []string{"pa", "flush", "b", "flush", "end"}; !slices.Equal(out.done, want) || !w.Begun() {
		t.Errorf("%q, want %q", out.done, want)
	}
	head := out.Header()
	if head.Get("Content-Type") != stream.Lines || head.Get("Cache-Control") != "no-store" ||
		head.Get("X-Accel-Buffering") != "no" || head.Get("X-Late") != "1" {
		t.Error(head)
	}
	out.fail = io.ErrClosedPipe
	if err := w.Send([]byte("c")); !errors.Is(err, io.ErrClosedPipe) {
		t.Errorf("a flush that fails: %v", err)
	}
	out.fail = nil
	sent := len(out.done)
	if err := w.Send([]byte("d")); !errors.Is(err, io.ErrClosedPipe) || len(out.done) > sent {
		t.Errorf("after that: %v, %q", err, out.done)
	}
	if err := w.Beat(); !errors.Is(err, io.ErrClosedPipe) {
		t.Errorf("a heartbeat after that: %v", err)
	}
}

// TestUnreadStreamEnds: a client that reads nothing ends the stream after the time for a slice.
func TestUnreadStreamEnds(t *testing.T) {
	t.Parallel()
	ended := make(chan error, 1)
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		s := &stream.Writer{Out: bodybudget.WriteTimeout(w, 50*time.Millisecond), Type: stream.Events}
		err := s.Send(stream.Event("1", "begin", nil))
		for err == nil {
			err = s.Send(bytes.Repeat([]byte("x"), 1<<20))
		}
		ended <- err
	}))
	check.Cleanup(t, web.Close)
	conn, err := net.Dial("tcp", web.Listener.Addr().String())
	check.Must(t, err)
	check.Cleanup(t, func() { _ = conn.Close() })
	_, err = fmt.Fprint(conn, "GET / HTTP/1.1\r\nHost: x\r\n\r\n")
	check.Must(t, err)
	if err := check.Received(t, ended, "the end of the stream"); err == nil {
		t.Error("it ended well")
	}
}

func TestEvent(t *testing.T) {
	t.Parallel()
	for want, got := range map[string][]byte{
		"id: 1\nevent: e\ndata: {}\n\n": stream.Event("1", "e", []byte("{}")),
		"event: message\ndata: x\n\n":   stream.Event("", "message", []byte("x")),
		"id: 7\n\n":                     stream.Event("7", "", nil),
	} {
		if string(got) != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
