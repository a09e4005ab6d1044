package clienttest

import (
	"context"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/test/bufconn"

	"github.com/capgate/capgate/internal/testkit/check"
)

// TestHTTP: a wait for a response, or for more of its body, ends with a description of the wait, and later requests end
// at once. Many short waits succeed.
func TestHTTP(t *testing.T) {
	t.Parallel()
	for path, want := range map[string]string{
		"/silent":      "the test waited 2m0s for the response of /silent",
		"/interrupted": "the test waited 2m0s for the body of /interrupted",
		"/slow":        "",
	} {
		t.Run(path, func(t *testing.T) {
			t.Parallel()
			check.Bubble(t, func(t *testing.T) {
				client := serveHTTP(t)
				resp, err := client.Get("http://memory" + path)
				if err == nil {
					_, err = io.ReadAll(resp.Body)
					_ = resp.Body.Close()
				}
				if want == "" {
					check.Must(t, err)
					return
				}
				if err == nil || !strings.Contains(err.Error(), want) {
					t.Errorf("the error is %v, and not %s", err, want)
				}
				begin := time.Now()
				if _, err := client.Get("http://memory/slow"); err == nil || time.Since(begin) > 0 {
					t.Errorf("another request ended after %v with %v", time.Since(begin), err)
				}
			})
		})
	}
}

// serveHTTP returns a client of a server without a socket.
func serveHTTP(t *testing.T) *http.Client {
	t.Helper()
	ln := bufconn.Listen(1 << 20)
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/silent" {
			_ = http.NewResponseController(w).Flush()
		}
		if r.URL.Path != "/slow" {
			<-r.Context().Done()
			return
		}
		for range 3 {
			<-time.After(Patience - time.Second)
			_, _ = io.WriteString(w, "more")
			_ = http.NewResponseController(w).Flush()
		}
	})}
	go func() { _ = server.Serve(ln) }()
	check.Cleanup(t, func() { _ = server.Close() })
	transport := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return ln.DialContext(ctx)
	}}
	check.Cleanup(t, transport.CloseIdleConnections)
	return &http.Client{Transport: Bound(transport)}
}
