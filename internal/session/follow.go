package session

import (
	"context"
	"net/http"
	"strings"
	"time"

	"github.com/capgate/capgate/internal/lib/accept"
	"github.com/capgate/capgate/internal/lib/recovery"
	"github.com/capgate/capgate/internal/lib/signal"
)

// Follow returns a context for a long response. It ends when check returns false: when the credential of the request
// is no longer valid, or has other rights. check is called every second and after each revocation. It must return soon
// after its context ends.
func (m *Manager) Follow(ctx context.Context, check func(context.Context) bool) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	go func() { // ends with the response
		defer cancel()
		for alive := true; alive; {
			if signal.Wait(ctx, m.revoked.next(), time.Second); ctx.Err() != nil {
				return
			}
			recovery.Round("sessions", func() { alive = false; alive = check(ctx) })
		}
	}()
	return ctx, cancel
}

// Lasts reports whether the response to a request may last.
func Lasts(r *http.Request) bool {
	return accept.Named(r.Header, "text/event-stream") || strings.HasSuffix(r.URL.Path, "/events") ||
		strings.HasSuffix(r.URL.Path, ":invoke") || strings.HasPrefix(r.Header.Get("Content-Type"), "application/grpc")
}
