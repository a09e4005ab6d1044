package rest_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/capgate/capgate/gateway/frontdoor/rest"
	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/internal/testkit/clienttest"
	capgatepb "github.com/capgate/capgate/proto/capgate/v1"
)

type tell = func(*capgatepb.WatchApprovalsResponse) error

// feed serves a feed, and returns its error.
func feed(t *testing.T, cfg rest.EventsConfig, f func(ctx context.Context, tell tell) error) (addr string,
	ended <-chan error) {
	t.Helper()
	all := make(chan error, 10)
	events := rest.NewEvents(func(ctx context.Context, _ *capgatepb.WatchApprovalsRequest,
		tell func(*capgatepb.WatchApprovalsResponse) error) error {
		err := f(ctx, tell)
		all <- err
		return err
	}, cfg)
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		events.Serve(w, r, nil)
	}))
	check.Cleanup(t, web.Close)
	return web.Listener.Addr().String(), all
}

// TestEventsBeat: heartbeats show clients and intermediaries that the stream is alive.
func TestEventsBeat(t *testing.T) {
	t.Parallel()
	addr, ended := feed(t, rest.EventsConfig{Beat: time.Millisecond}, func(ctx context.Context, _ tell) error {
		<-ctx.Done()
		return ctx.Err()
	})
	resp, err := clienttest.HTTP.Get("http://" + addr)
	check.Must(t, err)
	lines := bufio.NewScanner(resp.Body)
	for beats := 0; beats < 3; {
		if !lines.Scan() {
			t.Fatal(lines.Err())
		}
		if lines.Text() == ":" {
			beats++
		}
	}
	_ = resp.Body.Close()
	if err := check.Received(t, ended, "the end of the feed"); !errors.Is(err, context.Canceled) { // with the client
		t.Error(err)
	}
}

// TestEventsEnd: a feed that is over leaves the connection for another request.
func TestEventsEnd(t *testing.T) {
	t.Parallel()
	addr, _ := feed(t, rest.EventsConfig{}, func(_ context.Context, tell tell) error {
		if err := tell(&capgatepb.WatchApprovalsResponse{Id: "1-0", Event: "missed"}); err != nil {
			return err
		}
		return io.ErrUnexpectedEOF
	})
	for range 2 {
		resp, err := clienttest.HTTP.Get("http://" + addr)
		check.Must(t, err)
		body, err := io.ReadAll(resp.Body)
		_ = resp.Body.Close()
		if err != nil || !strings.HasPrefix(string(body), "retry: 2000\n\nid: 1-0\nevent: missed\ndata: {") ||
			!strings.HasSuffix(string(body), "}\n\n") {
			t.Errorf("%q, %v", body, err)
		}
	}
}

// TestEventsOfASlowReader: a client that does not read is cut off, and delays no shutdown.
func TestEventsOfASlowReader(t *testing.T) {
	t.Parallel()
	addr, ended := feed(t, rest.EventsConfig{Slow: 50 * time.Millisecond}, func(_ context.Context, tell tell) error {
		for {
			if err := tell(&capgatepb.WatchApprovalsResponse{Id: "1-0", Event: "asked",
				Approval: &capgatepb.Approval{Arguments: strings.Repeat("x", 1<<20)}}); err != nil {
				return err
			}
		}
	})
	conn, err := net.Dial("tcp", addr)
	check.Must(t, err)
	defer conn.Close()
	if _, err := fmt.Fprintf(conn, "GET / HTTP/1.1\r\nHost: %s\r\n\r\n", addr); err != nil {
		t.Fatal(err)
	}
	if err := check.Received(t, ended, "the end of the feed"); err == nil {
		t.Error("it ended well")
	}
}
