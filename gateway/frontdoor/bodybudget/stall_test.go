package bodybudget_test

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"testing"
	"time"

	"github.com/capgate/capgate/gateway/frontdoor/bodybudget"
	"github.com/capgate/capgate/internal/testkit/check"
)

// openBody sends a request whose body has one byte and no end, and returns the response.
func openBody(t *testing.T, h http.HandlerFunc) *http.Response {
	t.Helper()
	srv := httptest.NewServer(h)
	check.Cleanup(t, srv.Close)
	conn, err := net.Dial("tcp", srv.Listener.Addr().String())
	check.Must(t, err)
	check.Cleanup(t, func() { conn.Close() })
	_, err = io.WriteString(conn, "POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n")
	check.Must(t, err)
	check.Must(t, conn.SetReadDeadline(time.Now().Add(check.Patience)))
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	check.Must(t, err)
	check.Cleanup(t, func() { resp.Body.Close() })
	return resp
}

// TestResponseBeforeTheEndOfTheBody: no response is lost although the server first reads the body to its deadline.
func TestResponseBeforeTheEndOfTheBody(t *testing.T) {
	t.Parallel()
	const stall = time.Second
	openBody(t, func(w http.ResponseWriter, r *http.Request) {
		_, _ = bodybudget.StallTimeout(w, r.Body, stall).Read(make([]byte, 1))
		out := bodybudget.WriteTimeout(w, stall)
		_, _ = io.WriteString(out, "no")
		_ = out.FlushError()
	})
}

// TestDeadlineEndsAStall: the deadline of a call ends the wait for its body, although a stall may last longer.
func TestDeadlineEndsAStall(t *testing.T) {
	t.Parallel()
	openBody(t, func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithTimeout(r.Context(), time.Millisecond)
		defer cancel()
		_, err := io.ReadAll(bodybudget.StallTimeoutOf(ctx, w, r.Body, time.Hour))
		if !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Error(err)
		}
	})
}
