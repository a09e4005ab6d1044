package relay_test

import (
	"io"
	"net/http"
	"testing"

	"github.com/capgate/capgate/gateway/relay"
	"github.com/capgate/capgate/internal/testkit/check"
)

// TestWebTLS: a request over TLS has the state of its connection, from which the http.Handler learns its scheme, over
// HTTP/1.1 as well: for the first requests of a connection, and for those that net/http's server has.
func TestWebTLS(t *testing.T) {
	t.Parallel()
	serverTLS, clientTLS := tlsConfigs(t)
	_, addr := serveRelay(t, relay.Config{TLS: serverTLS}, &forwarder{}, http.HandlerFunc(
		func(w http.ResponseWriter, r *http.Request) {
			if r.TLS == nil || !r.TLS.HandshakeComplete {
				t.Errorf("%s %s: the TLS state is %v", r.Proto, r.URL, r.TLS)
			}
		}))
	for proto, c := range webClients(t, clientTLS) {
		for _, header := range []string{"X-Common", "Pragma"} { // not a common one
			req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://"+addr+"/"+proto, http.NoBody)
			check.Must(t, err)
			req.Header.Set(header, "x")
			resp, err := c.Do(req)
			check.Must(t, err)
			_, err = io.Copy(io.Discard, resp.Body)
			check.Must(t, err)
			check.Must(t, resp.Body.Close())
		}
	}
}
