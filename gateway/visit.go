package gateway

import (
	"context"
	"net/http"
	"time"

	"github.com/capgate/capgate/gateway/filter"
	"github.com/capgate/capgate/gateway/filter/authenticate"
	"github.com/capgate/capgate/gateway/frontdoor"
	"github.com/capgate/capgate/gateway/frontdoor/bodybudget"
	"github.com/capgate/capgate/gateway/frontdoor/connect"
	"github.com/capgate/capgate/gateway/frontdoor/problem"
	"github.com/capgate/capgate/gateway/frontdoor/rest"
	"github.com/capgate/capgate/gateway/relay"
	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/clientaddr"
	"github.com/capgate/capgate/internal/telemetry"
	"github.com/capgate/capgate/internal/tenant"
)

// visit is a request over HTTP that has not become a call yet. Its caller is authenticated here, once: the calls that
// the request becomes are told the outcome, see arrival.
type visit struct {
	frontdoor.Scope // of the request that next gets
	arrival

	h     *handler
	r     *http.Request
	came  time.Time
	share string // the tenant with whom it shares; "" where there is one only
	from  string // its address, by which those are told apart that are no tenant's
}

// strangers is the share of all requests without a good credential; no tenant's id is like it.
const strangers = bodybudget.Unknown

type visitKey struct{}

// visiting finds out where next's requests come from, and authenticates their callers. It waits where memory does not
// know a credential; how many requests of an address do is bounded.
func (h *handler) visiting(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		v := &visit{h: h, r: r, came: time.Now(), share: strangers}
		v.client = h.clientOf(r)
		v.from = v.address()
		v.authenticate()
		if r.Context().Err() != nil {
			return // the client has gone meanwhile
		}
		v.Context = r.Context()
		next.ServeHTTP(w, frontdoor.With(r.WithContext(&v.Scope), visitKey{}, v))
	})
}

// address is addressOf the client. Mostly the client is who connected, of whom it is known.
func (v *visit) address() string {
	if p := relay.PeerOf(v.r.Context()); p != nil {
		if who := p.Value.(*visitor); who.text == v.client.Address {
			return who.prefix
		}
	}
	return clientaddr.NetworkNameOf(v.client.Address)
}

// authenticate finds out whose request it is, or why that cannot be said.
func (v *visit) authenticate() {
	claim, refusal := v.h.callers.Credentials((*doorHeaders)(v), v.client.Peer)
	var who tenant.Identity
	if refusal == nil {
		var known bool
		if who, known, refusal = v.h.callers.Lookup(claim); !known {
			who, refusal = v.ask(claim)
		}
	}
	if v.Refusal = refusal; refusal != nil {
		return
	}
	v.is(who)
	v.h.authenticated(relay.PeerOf(v.r.Context()))
}

// ask finds out whose credential it is that memory does not know. Meanwhile a request over HTTP/1.1 holds what it takes
// besides its body with the strangers of its address; charging moves that to its tenant.
func (v *visit) ask(claim tenant.Credentials) (who tenant.Identity, refusal *call.Refusal) {
	if p := relay.PeerOf(v.r.Context()); p != nil {
		account, cost := v.h.shares.account(p), relay.RequestCost(v.r)
		if !account.Reserve(cost) {
			return who, filter.TooMany(who)
		}
		defer account.Release(cost)
	}
	ctx, cancel := v.patience()
	defer cancel()
	if who, refusal = v.h.callers.Wait(ctx, v.from, claim); refusal != nil && v.r.Context().Err() == nil &&
		ctx.Err() != nil {
		refusal = refusedLate
	}
	return who, refusal
}

// patience is the context of the lookup of a credential: the caller's own time bounds it, too.
func (v *visit) patience() (context.Context, context.CancelFunc) {
	timeout, given := rest.Timeout(v.r.Header)
	if connect.Speaks(v.r) {
		timeout, given = connect.Timeout(v.r)
	}
	if !given {
		return v.r.Context(), func() {}
	}
	return context.WithTimeout(v.r.Context(), timeout)
}

// refusedLate ends a call whose time was over before its caller was known.
var refusedLate = &call.Refusal{Kind: call.DeadlineExceeded, Message: "the call's time is over"}

// clientOf is where a request comes from. Over HTTP/2 the relay has found that out, see web.
func (h *handler) clientOf(r *http.Request) filter.Client {
	if c, ok := relay.ValueOf(r.Context()).(*filter.Client); ok {
		return *c
	}
	c, other := h.originOf(relay.PeerOf(r.Context()), webHeaders(r.Header), nil)
	if other.IsValid() {
		c.Address = other.String()
	}
	c.Drawn = h.trace.Draw(webHeaders(r.Header))
	return c
}

// visitOf is the visit that visiting made.
func visitOf(r *http.Request) *visit { return r.Context().Value(visitKey{}).(*visit) }

func (v *visit) is(who tenant.Identity) {
	if v.Identity, v.share = who, who.Tenant; who.Settings == nil {
		v.share = ""
	}
	if p := relay.PeerOf(v.r.Context()); p != nil {
		v.h.relay.Adopt(p, v.h.bandwidth.GroupOf(who.Settings))
	}
}

// Account implements bodybudget.Owner. A request waits, and holds its body, with its tenant's, or, where it is no
// tenant's or that is not known, with those of its address.
func (v *visit) Account() (share, from string) {
	if v.share == strangers || v.share == "" {
		return v.share, v.from
	}
	return v.share, ""
}

// Authenticate implements bodybudget.Owner.
func (v *visit) Authenticate(context.Context) error {
	if v.Refusal == nil {
		return nil
	}
	return v.refuse(v.Refusal, 0)
}

// Exceeded implements bodybudget.Owner.
func (v *visit) Exceeded(read int64) error { return v.refuse(filter.TooMany(v.Identity), read) }

// refuse records a request that becomes no call as if it were one, and is the status of its answer.
func (v *visit) refuse(refusal *call.Refusal, bytesIn int64) error {
	h, st := v.h, GRPCStatus(refusal)
	c := call.Call{Path: v.r.URL.Path, Tenant: v.Identity.Tenant, Key: v.Identity.Key, User: v.Identity.User,
		Agent: v.Identity.Agent}
	rec := telemetry.Record{
		Call: &c, Client: v.client.Address, Code: uint32(st.Code()), Reason: refusal.Reason,
		RequestID: v.r.Header.Get(requestIDHeader),
		BytesIn:   bytesIn, Started: v.came, Ended: time.Since(v.came), Shed: refusal == filter.OverFairShare ||
			refusal == filter.Overloaded,
	}
	if c.Tenant != "" {
		rec.Tenant = h.cfg.Metrics.Tenant(c.Tenant)
	}
	h.accesslog(false).Record(&rec, false)
	return st.Err()
}

// Contradicts says that a header is there twice, with different values.
func (w webHeaders) Contradicts(name string) bool {
	values := w[canonical(name)]
	for _, v := range values {
		if v != values[0] {
			return true
		}
	}
	return false
}

// canonical is a header's name as http.Header has it. Those that each request is asked for take no memory.
func canonical(name string) string {
	switch name {
	case authenticate.AuthorizationHeader:
		return "Authorization"
	case authenticate.APIKeyHeader:
		return "X-Api-Key"
	case authenticate.SignatureHeader:
		return "X-Capgate-Signature"
	case filter.UserHeader:
		return "X-User-Id"
	case authenticate.AgentHeader:
		return "X-Agent-Id"
	}
	return http.CanonicalHeaderKey(name)
}

// doorHeaders are the headers of a request from which a front door makes calls.
type doorHeaders visit

// Header is what the call would have. A key of somebody else's in x-api-key does not come along from the JSON API, and
// only a signed URL has a signature.
func (d *doorHeaders) Header(name string) (string, bool) {
	switch {
	case name == authenticate.SignatureHeader, name == authenticate.APIKeyHeader && !connect.Speaks(d.r) &&
		!rest.OwnKey(d.r.Header):
		return "", false
	}
	return webHeaders(d.r.Header).Header(name)
}

// Contradicts says the same of headers that come along.
func (d *doorHeaders) Contradicts(name string) bool {
	_, given := d.Header(name)
	return given && webHeaders(d.r.Header).Contradicts(name)
}

// DropHeader drops nothing: the call that the request becomes has its own headers.
func (*doorHeaders) DropHeader(string) {}

// naming lets problems name the traces that draw has decided upon.
func naming(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if o := visitOf(r).client; o.Drawn != nil && !o.Drawn.IsZero() {
			r = problem.WithTrace(r, o.Drawn.Text())
		}
		next.ServeHTTP(w, r)
	})
}
