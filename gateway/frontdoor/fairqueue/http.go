package fairqueue

import (
	"context"
	"io"
	"net/http"
	"sync/atomic"
)

// Handler serves requests that have passed the turnstile, and refuses with full those of whom too
// many wait. Until a request becomes a call (see Begun) it passes again with each part of its body.
func (t *Turnstile) Handler(whose func(*http.Request) (tenant, from string), full, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		tenant, from := whose(r)
		if err := t.Pass(r.Context(), tenant, from); err != nil {
			if r.Context().Err() == nil { // else the client has gone
				full.ServeHTTP(w, r)
			}
			return
		}
		if r.Body != nil && r.Body != http.NoBody {
			b := &body{ReadCloser: r.Body, turnstile: t, tenant: tenant}
			r = r.WithContext(context.WithValue(r.Context(), bodyKey{}, b))
			b.ctx, r.Body = r.Context(), b
		}
		next.ServeHTTP(w, r)
	})
}

type bodyKey struct{}

// Begun says that the request that ctx is of has become a call.
func Begun(ctx context.Context) {
	if b, ok := ctx.Value(bodyKey{}).(*body); ok {
		b.begun.Store(true)
	}
}

// body is a request's.
type body struct {
	io.ReadCloser
	ctx       context.Context
	turnstile *Turnstile
	tenant    string
	begun     atomic.Bool
}

func (b *body) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if n > 0 && !b.begun.Load() {
		if gone := b.turnstile.PassAgain(b.ctx, b.tenant); gone != nil {
			return n, gone
		}
	}
	return n, err
}
