package relay_test

import (
	"context"
	"errors"
	"net/http"
	"testing"

	"github.com/capgate/capgate/gateway/relay"
	"github.com/capgate/capgate/internal/testkit/check"
)

// values is a context that adds nothing but values.
type values struct{ context.Context }

func (v values) Outer() context.Context { return v.Context }

// sleeper is a Waiter.
type sleeper chan struct{}

func (s sleeper) Interrupt() { s <- struct{}{} }

// TestWaitIn: the end of a request interrupts its waiter, of which it has one at a time. A derived context that may end
// by itself needs a select.
func TestWaitIn(t *testing.T) {
	t.Parallel()
	ended := make(chan error, 1)
	ctx, cancel := context.WithCancel(t.Context())
	h := http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		own, stop := context.WithCancel(r.Context())
		defer stop()
		if _, ok := relay.WaitIn(own, sleeper(nil)); ok {
			t.Error("the end of a derived context would be missed")
		}
		first, ok := relay.WaitIn(r.Context(), sleeper(nil))
		if !ok || first.End() {
			t.Errorf("no wait in a request: %t", !ok)
		}
		s := make(sleeper, 1)
		wait, ok := relay.WaitIn(values{r.Context()}, s)
		if _, second := relay.WaitIn(r.Context(), sleeper(nil)); !ok || second {
			t.Errorf("no wait in a request with values: %t; a second one at once: %t", !ok, second)
		}
		cancel()
		<-s
		if !wait.End() {
			t.Error("a wait was not interrupted")
		}
		if _, ok := relay.WaitIn(r.Context(), s); ok {
			t.Error("a request that has ended has another wait")
		}
		<-own.Done()
		ended <- r.Context().Err()
	})
	_, addr := serveRelay(t, relay.Config{}, &forwarder{}, h)
	cancelRequest(ctx, t, addr, ended)
}

// cancelRequest makes a request over HTTP/2 that its handler cancels by ctx. ended receives the error of its context.
func cancelRequest(ctx context.Context, t *testing.T, addr string, ended <-chan error) {
	t.Helper()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+addr+"/", nil)
	check.Must(t, err)
	if resp, err := webClients(t, nil)["HTTP/2.0"].Do(req); err == nil {
		_ = resp.Body.Close()
		t.Error("a request that was canceled has a response")
	}
	if err := check.Received(t, ended, "the end"); !errors.Is(err, context.Canceled) {
		t.Errorf("the context of a stream that was reset ends with %v", err)
	}
}
