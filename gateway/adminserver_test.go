package gateway_test

import (
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/capgate/capgate/gateway"
	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/internal/testkit/clienttest"
	"github.com/capgate/capgate/internal/testkit/gatewaytest"
	"github.com/capgate/capgate/internal/testkit/rawhttp2"
)

// TestAdminConnectionsAreBounded: beyond a number of connections of one network, the admin API closes further ones at
// once, and takes others again when some have ended.
func TestAdminConnectionsAreBounded(t *testing.T) {
	t.Parallel()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	check.Must(t, err)
	server := &http.Server{Handler: http.NotFoundHandler()} //nolint:gosec // of a test
	check.Cleanup(t, func() { _ = server.Close() })
	go func() { _ = server.Serve(gateway.BoundAdmin(ln)) }()
	var open []net.Conn
	check.Cleanup(t, func() {
		for _, nc := range open {
			_ = nc.Close()
		}
	})
	for range 128 {
		nc, err := net.Dial("tcp", ln.Addr().String())
		check.Must(t, err)
		open = append(open, nc)
	}
	ask := func() error {
		nc, err := net.Dial("tcp", ln.Addr().String())
		check.Must(t, err)
		defer nc.Close()
		if _, err = io.WriteString(nc, "GET / HTTP/1.0\r\n\r\n"); err == nil {
			_, err = nc.Read(make([]byte, 1))
		}
		return err
	}
	if ask() == nil {
		t.Error("a connection beyond the limit is served")
	}
	_ = open[0].Close()
	check.Succeeds(t, "a connection after the end of another", ask)
}

// TestAdminHeadersAreBounded: a client without a credential gets no room for large headers, however few bytes HPACK needs
// for them, nor for many streams.
func TestAdminHeadersAreBounded(t *testing.T) {
	t.Parallel()
	g := gatewaytest.Start(t, gatewaytest.Options{})
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+g.AdminAddr+"/livez", http.NoBody)
	check.Must(t, err)
	r.Header.Set("Cookie", strings.Repeat("a", 40<<10))
	resp, err := clienttest.HTTP.Do(r)
	check.Must(t, err)
	resp.Body.Close()
	if resp.StatusCode != http.StatusRequestHeaderFieldsTooLarge {
		t.Errorf("a header of 40 KiB: %s", resp.Status)
	}
	c, err := rawhttp2.Dial(g.AdminAddr)
	check.Must(t, err)
	defer c.Close()
	check.Must(t, c.Greet())
	cookie := strings.Repeat("c", 1000)
	fields := []string{":method", "GET", ":scheme", "http", ":path", "/livez", ":authority", "localhost"}
	for range 300 { // 300 KB that HPACK writes in few bytes
		fields = append(fields, "cookie", cookie)
	}
	check.Must(t, c.Write(rawhttp2.Headers(1, true, c.Block(fields...))))
	got, err := c.WaitResponse(1)
	if err != nil || got.Status() == "200" {
		t.Errorf("headers of 300 KB over HTTP/2: %v, %v", got, err)
	}
}
