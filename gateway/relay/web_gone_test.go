package relay_test

import (
	"context"
	"crypto/tls"
	"errors"
	"net/http"
	"os"
	"testing"
	"time"

	"github.com/capgate/capgate/gateway/relay"
	"github.com/capgate/capgate/internal/testkit/check"
)

// TestWebGone: a response whose client leaves before it was sent is not reported as a panic.
func TestWebGone(t *testing.T) {
	t.Parallel()
	w := newWebRelay(t, relay.Config{})
	begun := make(chan struct{})
	w.handlers <- func(rw http.ResponseWriter, r *http.Request) {
		write(rw, "a page without a type")
		close(begun)
		<-r.Context().Done()
	}
	c := w.raw("GET", true)
	check.Received(t, begun, "the response")
	check.Must(t, c.Close())
	w.atRest(1)
	w.told.mu.Lock()
	defer w.told.mu.Unlock()
	if len(w.told.all) > 0 {
		t.Error(w.told.all)
	}
}

// TestWebUnread: a response that its client does not read in time ends the context of the request, before its handler
// returns.
func TestWebUnread(t *testing.T) {
	t.Parallel()
	if relay.EndsUnread(context.Background()) {
		t.Error("a context of no request ends")
	}
	serverTLS, clientTLS := tlsConfigs(t)
	for secure, cfg := range map[bool]relay.Config{false: {}, true: {TLS: serverTLS}} {
		begun, ended := make(chan struct{}, 1), make(chan struct{}, 1)
		_, addr := serveRelay(t, cfg, &forwarder{}, http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
			if !relay.EndsUnread(r.Context()) {
				t.Errorf("%s: EndsUnread is false", r.Proto)
			}
			response := http.NewResponseController(rw)
			err := response.Flush()
			select {
			case <-begun: // on a busy machine, the deadline could pass before the headers are sent
			case <-r.Context().Done():
			}
			if err == nil {
				err = response.SetWriteDeadline(time.Now().Add(10 * time.Millisecond))
			}
			for err == nil {
				_, err = rw.Write(make([]byte, 64<<10))
			}
			if !errors.Is(err, os.ErrDeadlineExceeded) {
				t.Errorf("%s: %v", r.Proto, err)
			}
			<-r.Context().Done()
			ended <- struct{}{}
		}))
		scheme := map[bool]string{false: "http", true: "https"}[secure]
		for proto, c := range webClients(t, map[bool]*tls.Config{true: clientTLS}[secure]) {
			resp, err := c.Get(scheme + "://" + addr)
			check.Must(t, err)
			begun <- struct{}{}
			check.Received(t, ended, "the end of the request over "+proto)
			check.Must(t, resp.Body.Close())
		}
	}
}
