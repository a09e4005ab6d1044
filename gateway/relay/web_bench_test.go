package relay_test

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/capgate/capgate/gateway/relay"
	"github.com/capgate/capgate/internal/testkit/check"
)

// BenchmarkWeb makes requests over HTTP/2, one at a time, to a relay's http.Handler, and to net/http's server for
// comparison. It includes the cost of the client.
func BenchmarkWeb(b *testing.B) {
	h := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Type", "text/plain")
		_, _ = w.Write([]byte("ok"))
	})
	_, own := serveRelay(b, relay.Config{}, &forwarder{}, h)
	for name, addr := range map[string]string{"relay": own, "net-http": netHTTP(b, h)} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			c := webClients(b, nil)["HTTP/2.0"]
			for b.Loop() {
				resp, err := c.Post("http://"+addr+"/a/b", "text/plain", strings.NewReader("a body"))
				check.Must(b, err)
				_, _ = io.Copy(io.Discard, resp.Body)
				_ = resp.Body.Close()
			}
		})
	}
}
