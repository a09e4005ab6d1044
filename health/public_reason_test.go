package health_test

import (
	"testing"

	"github.com/capgate/capgate/health"
)

// TestTold: callers may read what a wrong backend is, and of a response only the error that it has for its client.
func TestTold(t *testing.T) {
	t.Parallel()
	const rejects, hidden = "the backend rejects the gateway: HTTP 403", "; capgate status has its response"
	for reason, want := range map[string]string{
		"loading":                                               "",
		health.WrongService("HTTP/1", ""):                       "wrong backend: HTTP/1",
		health.WrongService("HTTP/1", "own"):                    "wrong backend: HTTP/1",
		health.Rejecting("HTTP 403", "", `{"error":"no host"}`): rejects + ": no host",
		health.Rejecting("HTTP 403", "", `{"id":null,"error":{"code":-32000,"message":"no host"}}`): rejects +
			": no host", health.Rejecting("HTTP 403", "", `{"id":7,"error":{"message":"of another"}}`): rejects +
			hidden,
		health.Rejecting("HTTP 403", "", "internal"):      rejects + hidden,
		health.Rejecting("HTTP 403", "", ""):              rejects + hidden,
		health.Rejecting("HTTP 403", "a key", "internal"): rejects + ": a key" + hidden,
	} {
		b := health.Backend{State: health.Down, Reason: reason}
		if got := b.PublicReason(); got != want {
			t.Errorf("%q: %q, want %q", reason, got, want)
		}
		if b.State = health.Up; b.PublicReason() != "" || b.WrongService() {
			t.Errorf("%q of a backend that is up: %q", reason, b.PublicReason())
		}
	}
}
