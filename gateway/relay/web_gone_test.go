package relay_test

import (
	"net/http"
	"testing"

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
