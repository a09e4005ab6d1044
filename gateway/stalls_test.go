package gateway_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/capgate/capgate/internal/tenant"
	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/internal/testkit/gatewaytest"
)

// stall is the time of a stalled client. A response must be written in it, also by a busy machine.
const stall = time.Second

// TestStalledClientsLoseTheirConnection: at both ports, a client without a credential that stalls its body or does not
// read its responses loses its connection.
func TestStalledClientsLoseTheirConnection(t *testing.T) {
	t.Parallel()
	ring, keys := newKeyring(), tenant.NewKeys(nil)
	keys.Replace(ring.keys, settings(t, map[string][]string{"acme": {"caps"}}), nil)
	by, _ := guarded()
	g := gatewaytest.Start(t, gatewaytest.Options{Authenticator: keys, Guard: by, Stall: stall})
	for port, addr := range map[string]string{"public": g.Addr, "admin": g.AdminAddr} {
		body := dialFrom(t, "127.0.0.1", addr)
		_, err := io.WriteString(body, "POST /v1/capabilities/caps/invoke HTTP/1.1\r\nHost: localhost\r\n"+
			"Content-Type: application/json\r\nContent-Length: 100\r\n\r\n{")
		check.Must(t, err)
		check.Must(t, body.SetReadDeadline(time.Now().Add(check.Patience)))
		if b, err := io.ReadAll(body); err != nil || !strings.HasPrefix(string(b), "HTTP/1.1 4") {
			t.Errorf("%s: a stalled body: %v, %s", port, err, b)
		}
		unread := dialFrom(t, "127.0.0.1", addr)
		for sent, err := 0, error(nil); err == nil; sent++ { // until the gateway closes the connection
			check.Must(t, unread.SetWriteDeadline(time.Now().Add(check.Patience)))
			_, err = fmt.Fprint(unread, "GET /docs/errors HTTP/1.1\r\nHost: localhost\r\nAccept: text/html\r\n\r\n")
			if err != nil && (strings.Contains(err.Error(), "timeout") || sent == 0) {
				t.Errorf("%s: %d requests whose responses are not read: %v", port, sent, err)
			}
		}
	}
	if status, _ := g.Admin(t, "/livez"); status != http.StatusOK {
		t.Error(status)
	}
}
