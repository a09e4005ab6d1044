package relay_test

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"testing"

	"github.com/capgate/capgate/gateway/relay"
	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/internal/testkit/rawhttp2"
)

// early begins an upload that is refused before its end, and reads the response.
func early(t *testing.T, addr string) *rawhttp2.Conn {
	t.Helper()
	c, err := rawhttp2.Dial(addr)
	check.Must(t, err)
	check.Cleanup(t, func() { _ = c.Close() })
	block := c.Block(":method", "POST", ":scheme", "http", ":authority", "localhost", ":path", "/refused")
	check.Must(t, errors.Join(c.Greet(), c.Write(rawhttp2.Headers(1, false, block),
		rawhttp2.Data(1, false, make([]byte, 1000)))))
	if r, err := c.WaitResponse(1); err != nil || r.Header[":status"] != "413" || string(r.Body) != "too much" {
		t.Fatalf("%v, %v", r, err)
	}
	return c
}

// TestLinger: a client that still sends after it has received the whole response is not reset at once, because many
// clients would then lose the response.
func TestLinger(t *testing.T) {
	t.Parallel()
	_, addr := serveRelay(t, relay.Config{}, &forwarder{}, http.HandlerFunc(func(w http.ResponseWriter,
		_ *http.Request) {
		w.WriteHeader(http.StatusRequestEntityTooLarge)
		_, _ = w.Write([]byte("too much"))
	}))
	reset := func(f rawhttp2.Frame) bool {
		return f.Type == rawhttp2.TypeReset || f.Type == rawhttp2.TypePing && f.Has(rawhttp2.Ack)
	}
	t.Run("it ends", func(t *testing.T) {
		t.Parallel()
		c := early(t, addr)
		check.Must(t, c.Write(rawhttp2.Data(1, false, make([]byte, 16<<10)),
			rawhttp2.Data(1, true, make([]byte, 16<<10)),
			rawhttp2.Ping(7)))
		if f, err := c.Wait(reset); err != nil || f.Type != rawhttp2.TypePing {
			t.Errorf("%v, %v", f, err)
		}
	})
	t.Run("it goes on", func(t *testing.T) {
		t.Parallel()
		c := early(t, addr)
		for range 3 {
			check.Must(t, c.Write(rawhttp2.Data(1, false, make([]byte, 16<<10))))
		}
		check.Must(t, c.Write(rawhttp2.Ping(7)))
		if f, err := c.Wait(reset); err != nil || f.Type != rawhttp2.TypePing {
			t.Errorf("after 48 KiB: %v, %v", f, err)
		}
		check.Must(t, c.Write(rawhttp2.Data(1, false, make([]byte, 14<<10)),
			rawhttp2.Data(1, false, make([]byte, 4<<10))))
		if code, err := c.WaitReset(1); err != nil || code != rawhttp2.NoError {
			t.Errorf("after 66 KiB: %d, %v", code, err)
		}
	})
	t.Run("it is silent", func(t *testing.T) {
		t.Parallel()
		c := early(t, addr)
		if code, err := c.WaitReset(1); err != nil || code != rawhttp2.NoError {
			t.Errorf("%d, %v", code, err)
		}
	})
}

// TestResponseBeforeAReset: a response arrives whole although its backend closes the connection while the client still
// sends. The kernel resets it then, and the relay may notice that when it writes, before it has read the response.
func TestResponseBeforeAReset(t *testing.T) {
	t.Parallel()
	const rounds = 25
	lost := 0
	for range rounds {
		w := newRelayed(t, relay.Config{})
		raw := w.rawBackend(t)
		s := stream(w.ctx, t, w.cc, "Echo")
		check.Must(t, send(s, pattern(0, 100)))
		p := raw.accept(t)
		id := p.head(t)
		stopped := make(chan struct{})
		go func() {
			defer close(stopped)
			for send(s, pattern(1, 100)) == nil {
			}
		}()
		p.reply(t, id, rawhttp2.Message(pattern(2, 1000)))
		check.Must(t, p.socket.SetLinger(0))
		check.Must(t, p.Close())
		got, err := recv(s)
		if _, end := recv(s); err != nil || !bytes.Equal(got, pattern(2, 1000)) || !errors.Is(end, io.EOF) {
			t.Logf("%d bytes, %v, %v", len(got), err, end)
			lost++
		}
		check.Received(t, stopped, "the end of the upload")
	}
	if lost > 0 {
		t.Errorf("%d of %d responses were lost", lost, rounds)
	}
}
