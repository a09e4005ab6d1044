package web

import (
	"cmp"
	"context"
	"net/http"
	"sync"

	"github.com/capgate/capgate/gateway/filter"
	"github.com/capgate/capgate/gateway/frontdoor/bodybudget"
	"github.com/capgate/capgate/gateway/frontdoor/fairqueue"
	"github.com/capgate/capgate/gateway/frontdoor/request"
	"github.com/capgate/capgate/gateway/status"
	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/lib/fairshare"
	"github.com/capgate/capgate/internal/overload"
	"github.com/capgate/capgate/internal/tenant"
)

// requestWork is the cost of a request without its body and call, in bytes of a body.
const requestWork = 4 << 10

// Bodies limits the memory of bodies, and charges responses that requests hold to their tenants.
func (s *Server) Bodies(next http.Handler) http.Handler {
	next = s.cfg.Bodies.Handler(func(r *http.Request) bodybudget.Owner { return Of(r) }, next)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		v := Of(r)
		v.results.begin(v, s.cfg.Results)
		defer v.release()
		v.Charge(requestWork)
		next.ServeHTTP(w, request.With(r, request.ResultsKey(), &v.results))
	})
}

// incoming is the memory for the body of a request, in one allocation.
type incoming struct {
	queued   fairqueue.Body
	reserved bodybudget.Reservation
}

// body returns the memory for the body of the request.
func (v *Request) body() *incoming {
	if v.incoming == nil {
		v.incoming = new(incoming)
	}
	return v.incoming
}

// Queued implements fairqueue.Owner.
func (v *Request) Queued() *fairqueue.Body { return &v.body().queued }

// Reserved implements bodybudget.Owner.
func (v *Request) Reserved() *bodybudget.Reservation { return &v.body().reserved }

// Account implements bodybudget.Owner and fairqueue.Owner. Shares are by tenant, and by client address for requests
// without one.
func (v *Request) Account() (share, from string) {
	if v.share == unauthenticated || v.share == "" {
		return v.share, v.Network
	}
	return v.share, ""
}

// Owner returns the UID of the tenant, or the network of a client without one. The names are distinct.
func (v *Request) Owner() string {
	if v.share == unauthenticated || v.share == "" {
		return "network " + v.Network
	}
	return "tenant " + v.share + "/" + v.Identity.Settings.UID() // the UID of a tenant of the file is empty
}

// Authenticate implements bodybudget.Owner.
func (v *Request) Authenticate(context.Context) error {
	if v.Refusal == nil {
		return nil
	}
	return v.Refuse(v.Refusal)
}

// Admit implements bodybudget.Owner.
func (v *Request) Admit(length int64) error {
	shedder := v.s.cfg.Overload
	if shedder == nil || v.share == unauthenticated {
		return nil
	}
	verdict, limit := shedder.AdmitBody(v.share, length)
	if verdict == overload.Admitted {
		return nil
	}
	return v.shed(filter.TooMany(v.Identity), limit, 0)
}

// Charge implements bodybudget.Owner.
func (v *Request) Charge(n int64) {
	if shedder := v.s.cfg.Overload; shedder != nil && v.share != unauthenticated {
		shedder.Charge(v.share, n)
	}
}

// Exceeded implements bodybudget.Owner.
func (v *Request) Exceeded(read int64) error {
	refusal := filter.TooMany(v.Identity)
	if err := v.shed(refusal, overload.Bodies, read); read == 0 {
		return err
	}
	return status.Answer(refusal).Err() // a backend may have received a part of an upload
}

// results accounts for the responses that a request holds. It implements request.Results and relay.Account.
type results struct {
	mu      sync.Mutex
	account *fairshare.Account // nil means the request has ended, or not started
	owner   *Request
	held    int64
}

// begin selects the account: of the tenant, or of the network of an unauthenticated client.
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

// refusedResult is the error of a call without room for its response. The call may have run, so it must not be
// repeated.
var refusedResult = &call.Refusal{Kind: call.ResourceExhausted, Reason: "RESULTS_FULL", Progress: call.Sent,
	Message: "the responses held for this tenant have used its share of the memory: read responses faster, or make " +
		"fewer calls at once; the call may have run"}

// Exceeded implements request.Results.
func (*results) Exceeded() error {
	return status.Of(refusedResult, call.Sent).Err()
}

// end releases everything that the request holds.
func (r *results) end() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.account != nil && r.held != 0 {
		r.account.Release(r.held)
	}
	r.account, r.held = nil, 0
}
