package fairqueue

import (
	"context"
	"io"
	"net/http"
	"sync/atomic"
)

// Handler serves admitted requests with next, and those beyond the limit with full. Until a request becomes a call
// (see CallStarted), it waits again after each read of its body.
func (q *Queue) Handler(ownerOf func(*http.Request) (tenant, from string), full, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		tenant, from := ownerOf(r)
		if err := q.Wait(r.Context(), tenant, from); err != nil {
			if r.Context().Err() == nil { // else the client has left
				full.ServeHTTP(w, r)
			}
			return
		}
		if r.Body != nil && r.Body != http.NoBody {
			b := &body{ReadCloser: r.Body, queue: q, tenant: tenant}
			r = r.WithContext(context.WithValue(r.Context(), bodyKey{}, b))
			b.ctx, r.Body = r.Context(), b
		}
		next.ServeHTTP(w, r)
	})
}

type bodyKey struct{}

// CallStarted records that the request of ctx has become a call.
func CallStarted(ctx context.Context) {
	if b, ok := ctx.Value(bodyKey{}).(*body); ok {
		b.started.Store(true)
	}
}

// body is the body of a request.
type body struct {
	io.ReadCloser
	ctx     context.Context
	queue   *Queue
	tenant  string
	started atomic.Bool
}

func (b *body) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if n > 0 && !b.started.Load() {
		if gone := b.queue.WaitAgain(b.ctx, b.tenant); gone != nil {
			return n, gone
		}
	}
	return n, err
}
