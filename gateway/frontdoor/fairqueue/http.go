package fairqueue

import (
	"context"
	"io"
	"net/http"
	"sync/atomic"

	"github.com/capgate/capgate/gateway/frontdoor/request"
)

// bodyInTurn is the number of bytes of its body that a request may read in a turn without waiting again.
const bodyInTurn = 16 << 10

// Owner is the owner of a request.
type Owner interface {
	// Account returns the tenant and the client address whose turn a request waits for.
	Account() (tenant, from string)
	// Queued returns memory for the body of the request, in the zero state.
	Queued() *Body
}

// Handler serves admitted requests with next, and those beyond the limit with full. Until a request becomes a call
// (see CallStarted), it waits again when it has read of its body, unless that was little and still in its turn: the
// client has sent it with the header.
func (q *Queue) Handler(ownerOf func(*http.Request) Owner, full, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		owner := ownerOf(r)
		tenant, from := owner.Account()
		turn, err := q.wait(r.Context(), tenant, from)
		if err != nil {
			if r.Context().Err() == nil { // else the client has left
				full.ServeHTTP(w, r)
			}
			return
		}
		if r.Body != nil && r.Body != http.NoBody {
			b := owner.Queued()
			b.ReadCloser, b.queue, b.tenant, b.turn, b.left = r.Body, q, tenant, turn, bodyInTurn
			r = request.With(r, bodyKey{}, b)
			b.ctx, r.Body = r.Context(), b
		}
		next.ServeHTTP(w, r)
	})
}

type bodyKey struct{}

// CallStarted records that the request of ctx has become a call.
func CallStarted(ctx context.Context) {
	if b, ok := ctx.Value(bodyKey{}).(*Body); ok {
		b.started.Store(true)
	}
}

// Body is the body of a request.
type Body struct {
	io.ReadCloser
	ctx     context.Context
	queue   *Queue
	tenant  string
	started atomic.Bool
	turn    uint64 // in which the request was admitted
	left    int    // bytes that it may still read in this turn
}

// Read implements io.Reader.
func (b *Body) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if n == 0 || b.started.Load() {
		return n, err
	}
	if b.left -= n; b.left >= 0 && b.turn == b.queue.turn.Load() {
		return n, err
	}
	var gone error
	if b.turn, gone = b.queue.waitAgain(b.ctx, b.tenant); gone != nil {
		return n, gone
	}
	b.left = bodyInTurn
	return n, err
}
