package turnstile

import (
	"context"
	"io"
	"net/http"
)

// Handler serves requests that have passed the turnstile, and refuses with full those of whom too
// many wait. A request gives its place up when it becomes a call (see Through), when it begins to
// answer, and for as long as it waits for its own body: nobody is kept waiting for a client's bytes.
func (t *Turnstile) Handler(tenantOf func(*http.Request) string, full, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		p, err := t.Enter(r.Context(), tenantOf(r))
		switch {
		case err == nil:
			defer p.Leave()
		case r.Context().Err() != nil:
			return // the client has gone
		default:
			full.ServeHTTP(w, r)
			return
		}
		r = r.WithContext(context.WithValue(r.Context(), placeKey{}, p))
		if r.Body != nil && r.Body != http.NoBody {
			r.Body = &body{ReadCloser: r.Body, ctx: r.Context(), place: p}
		}
		next.ServeHTTP(&answer{ResponseWriter: w, place: p}, r)
	})
}

type placeKey struct{}

// Through gives up the place of the request that ctx is of, if it has one.
func Through(ctx context.Context) {
	if p, ok := ctx.Value(placeKey{}).(*Place); ok {
		p.Leave()
	}
}

// body is a request's.
type body struct {
	io.ReadCloser
	ctx   context.Context
	place *Place
}

func (b *body) Read(p []byte) (n int, err error) {
	gone := b.place.Pause(b.ctx, func() { n, err = b.ReadCloser.Read(p) })
	if err == nil {
		err = gone
	}
	return n, err
}

// answer is what a request gets.
type answer struct {
	http.ResponseWriter
	place *Place
}

func (a *answer) WriteHeader(status int) {
	a.place.Leave()
	a.ResponseWriter.WriteHeader(status)
}

func (a *answer) Write(p []byte) (int, error) {
	a.place.Leave()
	return a.ResponseWriter.Write(p)
}

// Flush implements http.Flusher.
func (a *answer) Flush() {
	a.place.Leave()
	_ = http.NewResponseController(a.ResponseWriter).Flush() // what can be written is told by Write
}

// Unwrap is for http.ResponseController.
func (a *answer) Unwrap() http.ResponseWriter { return a.ResponseWriter }
