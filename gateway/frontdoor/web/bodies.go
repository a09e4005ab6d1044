package web

import (
	"cmp"
	"sync"

	"github.com/capgate/capgate/gateway/status"
	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/lib/fairshare"
	"github.com/capgate/capgate/internal/tenant"
)

// results is what a request holds of responses. It implements request.Results and relay.Account.
type results struct {
	mu      sync.Mutex
	account *fairshare.Account // nil: the request has ended, or not begun
	owner   *Request
	held    int64
}

// begin selects the account: of the tenant, or of the network of a client that has none yet.
func (r *results) begin(v *Request, pool *fairshare.Pool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	owner := cmp.Or(v.share, tenant.Default)
	if v.share == unauthenticated {
		owner = unauthenticated + v.Network
	}
	r.owner, r.account = v, pool.Of(owner)
}

// Reserve implements request.Results.
func (r *results) Reserve(n int64) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.account == nil || !r.account.Reserve(n) {
		return false
	}
	r.held += n
	r.owner.Charge(n)
	return true
}

// Release implements request.Results.
func (r *results) Release(n int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.account != nil {
		r.account.Release(n)
		r.held -= n
	}
}

// refusedResult is the error of a call whose response there is no room for. It may have run: it is not to be repeated.
var refusedResult = &call.Refusal{Kind: call.ResourceExhausted, Reason: "RESULTS_FULL", Progress: call.Sent,
	Message: "the responses that the gateway holds for this tenant fill its share of the memory: read responses faster, " +
		"or make fewer calls at once; the call may have run"}

// Exceeded implements request.Results.
func (*results) Exceeded() error {
	return status.Of(refusedResult, call.Sent).Err()
}

// end releases all that the request holds.
func (r *results) end() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.account != nil && r.held != 0 {
		r.account.Release(r.held)
	}
	r.account, r.held = nil, 0
}
