package gateway

import (
	"context"
	"net/http"
	"sync/atomic"
	"time"

	"google.golang.org/grpc/codes"

	"github.com/capgate/capgate/gateway/filter"
	"github.com/capgate/capgate/gateway/filter/authenticate"
	"github.com/capgate/capgate/gateway/frontdoor"
	"github.com/capgate/capgate/gateway/frontdoor/bodybudget"
	"github.com/capgate/capgate/gateway/frontdoor/connect"
	"github.com/capgate/capgate/gateway/frontdoor/problem"
	"github.com/capgate/capgate/gateway/frontdoor/rest"
	"github.com/capgate/capgate/gateway/relay"
	"github.com/capgate/capgate/gateway/status"
	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/clientaddr"
	"github.com/capgate/capgate/internal/overload"
	"github.com/capgate/capgate/internal/telemetry"
	"github.com/capgate/capgate/internal/tenant"
)

// webRequest is a request to a front door. Its caller is authenticated here, once: the calls that the front door makes
// for the request inherit the outcome.
type webRequest struct {
	frontdoor.Scope // of the request that next gets
	inherited

	h     *handler
	r     *http.Request
	came  time.Time
	share string // its tenant, for fair shares; "" if there is only one
	from  string // its client's network, for fair shares of requests without a tenant

	results  results      // that it holds
	person   *inboxCaller // of a request to the inbox; nil: of others
	recorded atomic.Bool  // it is recorded, or a call of it, which records itself
}

// strangers is the share of all requests without a valid credential. It is no valid id of a tenant.
const strangers = bodybudget.Unknown

type webRequestKey struct{}

// authenticateRequests adds a webRequest to the context of each request: its client, and its principal. It waits for
// the store if a credential is not known from memory; the number of requests of an address that wait is bounded.
func (h *handler) authenticateRequests(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		v := &webRequest{h: h, r: r, came: time.Now(), share: strangers}
		v.client = h.clientOf(r)
		v.from = v.address()
		if v.isInbox() {
			v.authenticatePerson()
		} else {
			v.authenticate()
		}
		if r.Context().Err() != nil {
			return // the client has gone meanwhile
		}
		v.Context = r.Context()
		next.ServeHTTP(w, frontdoor.WithRejections(frontdoor.With(r.WithContext(&v.Scope), webRequestKey{}, v), v))
	})
}

// address returns the name of the client's network. For most requests the connection has it already.
func (v *webRequest) address() string {
	if p := relay.PeerOf(v.r.Context()); p != nil {
		if who := p.Value.(*clientConn); who.text == v.client.Address {
			return who.prefix
		}
	}
	return clientaddr.NetworkNameOf(v.client.Address)
}

// authenticate sets the principal of a request, or why it is rejected.
func (v *webRequest) authenticate() {
	claim, refusal := v.h.callers.Credentials((*requestHeaders)(v), &v.client)
	var who tenant.Identity
	if refusal == nil {
		var known bool
		if who, known, refusal = v.h.callers.Lookup(claim); !known {
			who, refusal = v.lookUp(claim)
		}
	}
	if v.Refusal = refusal; refusal != nil {
		return
	}
	v.setIdentity(who)
	v.h.authenticated(relay.PeerOf(v.r.Context()))
}

// lookUp waits for the identity of a credential that is not known from memory. Meanwhile the memory of a request over
// HTTP/1.1, besides its body, is charged to its address; chargeRequests charges it to its tenant.
func (v *webRequest) lookUp(claim tenant.Credentials) (who tenant.Identity, refusal *call.Refusal) {
	if p := relay.PeerOf(v.r.Context()); p != nil {
		account, cost := v.h.shares.account(p), relay.RequestCost(v.r)
		if !account.Reserve(cost) {
			return who, filter.TooMany(who)
		}
		defer account.Release(cost)
	}
	ctx, cancel := v.lookupContext()
	defer cancel()
	if who, refusal = v.h.callers.Wait(ctx, v.from, claim); refusal != nil && v.r.Context().Err() == nil &&
		ctx.Err() != nil {
		refusal = refusedLate
	}
	return who, refusal
}

// lookupContext returns the context of the lookup of a credential. The caller's timeout bounds it.
func (v *webRequest) lookupContext() (context.Context, context.CancelFunc) {
	timeout, given := rest.Timeout(v.r.Header)
	if connect.Speaks(v.r) {
		timeout, given = connect.Timeout(v.r)
	}
	if !given {
		return v.r.Context(), func() {}
	}
	return context.WithTimeout(v.r.Context(), timeout)
}

// refusedLate rejects a request whose deadline passed before its caller was authenticated.
var refusedLate = &call.Refusal{Kind: call.DeadlineExceeded, Reason: "DEADLINE_EXCEEDED",
	Message: "the call's time is over"}

// clientOf returns the client of a request. Over HTTP/2, setWebClient has resolved it.
func (h *handler) clientOf(r *http.Request) filter.Client {
	if c, ok := relay.ValueOf(r.Context()).(*filter.Client); ok {
		return *c
	}
	c, other := h.resolveClient(relay.PeerOf(r.Context()), webHeaders(r.Header), nil)
	if other.IsValid() {
		c.Address = other.String()
	}
	c.Drawn = h.trace.Draw(webHeaders(r.Header))
	return c
}

// webRequestOf returns the webRequest of a request.
func webRequestOf(r *http.Request) *webRequest {
	return r.Context().Value(webRequestKey{}).(*webRequest)
}

func (v *webRequest) setIdentity(who tenant.Identity) {
	if v.Identity, v.share = who, who.Tenant; who.Settings == nil {
		v.share = ""
	}
	if p := relay.PeerOf(v.r.Context()); p != nil {
		v.h.relay.SetGroup(p, v.h.bandwidth.GroupOf(who.Settings))
	}
}

// Account implements bodybudget.Owner. Requests share by tenant, and by client address if they have none.
func (v *webRequest) Account() (share, from string) {
	if v.share == strangers || v.share == "" {
		return v.share, v.from
	}
	return v.share, ""
}

// owner returns the UID of the tenant, or the network of a client without one. The names differ.
func (v *webRequest) owner() string {
	if v.share == strangers || v.share == "" {
		return "network " + v.from
	}
	return "tenant " + v.share + "/" + v.Identity.Settings.UID() // there is none of a tenant of the file
}

// Authenticate implements bodybudget.Owner.
func (v *webRequest) Authenticate(context.Context) error {
	if v.Refusal == nil {
		return nil
	}
	return v.refuse(v.Refusal, 0)
}

// Admit implements bodybudget.Owner.
func (v *webRequest) Admit(length int64) error {
	shedder := v.h.cfg.Capacity.Overload
	if shedder == nil || v.share == strangers {
		return nil
	}
	verdict, limit := shedder.AdmitBody(v.share, length)
	if verdict == overload.Admitted {
		return nil
	}
	return v.shed(filter.TooMany(v.Identity), limit.String(), 0)
}

// Charge implements bodybudget.Owner.
func (v *webRequest) Charge(n int64) {
	if shedder := v.h.cfg.Capacity.Overload; shedder != nil && v.share != strangers {
		shedder.Charge(v.share, n)
	}
}

// Exceeded implements bodybudget.Owner.
func (v *webRequest) Exceeded(read int64) error {
	refusal := filter.TooMany(v.Identity)
	if err := v.shed(refusal, filter.ByBodies, read); read == 0 {
		return err
	}
	return GRPCStatus(refusal).Err() // of an upload, a backend may have got what was read
}

// refuse records a rejected request, and returns the status of its answer.
func (v *webRequest) refuse(refusal *call.Refusal, bytesIn int64) error {
	return v.shed(refusal, "", bytesIn)
}

// shed is refuse, for a limit of overload; "": another reason.
func (v *webRequest) shed(refusal *call.Refusal, limit string, bytesIn int64) error {
	st := status.Of(refusal, call.NotSent)
	v.record(telemetry.Record{Code: uint32(st.Code()), Reason: refusal.Reason, BytesIn: bytesIn, Shed: limit != "",
		ShedBy: limit})
	return st.Err()
}

// Rejected implements frontdoor.Rejections.
func (v *webRequest) Rejected(code codes.Code, reason string) {
	if !v.recorded.Load() {
		v.record(telemetry.Record{Code: uint32(code), Reason: reason})
	}
}

// record records a request that became no call.
func (v *webRequest) record(rec telemetry.Record) {
	v.recorded.Store(true)
	c := call.Call{Path: v.r.URL.Path, Tenant: v.Identity.Tenant, Key: v.Identity.Key, User: v.Identity.User,
		Agent: v.Identity.Agent}
	rec.Call, rec.Client, rec.RequestID = &c, v.client.Address, v.r.Header.Get(requestIDHeader)
	rec.Started, rec.Ended, rec.Page = v.came, time.Since(v.came), v.person != nil
	if at := v.client.At; at != nil {
		rec.Listener = at.Name
	}
	if c.Tenant != "" {
		rec.Tenant = v.h.cfg.Observe.Metrics.Tenant(c.Tenant)
	}
	v.h.accesslog(false).Record(&rec, false)
}

// Contradicts reports whether a header has different values.
func (w webHeaders) Contradicts(name string) bool {
	values := w[canonical(name)]
	for _, v := range values {
		if v != values[0] {
			return true
		}
	}
	return false
}

// canonical returns the name of a header as http.Header has it. The names that every request is asked for take no
// memory.
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

// requestHeaders are the headers that the calls of a request have.
type requestHeaders webRequest

// Header returns a header as the call has it. The JSON API does not pass on an x-api-key that is not capgate's, and
// only signed URLs have a signature.
func (d *requestHeaders) Header(name string) (string, bool) {
	switch {
	case name == authenticate.SignatureHeader, name == authenticate.APIKeyHeader && !connect.Speaks(d.r) &&
		!rest.OwnKey(d.r.Header):
		return "", false
	}
	return webHeaders(d.r.Header).Header(name)
}

// Contradicts reports whether a header that the call has has different values.
func (d *requestHeaders) Contradicts(name string) bool {
	_, given := d.Header(name)
	return given && webHeaders(d.r.Header).Contradicts(name)
}

// DropHeader drops nothing: the call that the request becomes has its own headers.
func (*requestHeaders) DropHeader(string) {}

// withTraceID adds the id of the trace that was drawn for a request to its problems.
func withTraceID(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if o := webRequestOf(r).client; o.Drawn != nil && !o.Drawn.IsZero() {
			r = problem.WithTrace(r, o.Drawn.Text())
		}
		next.ServeHTTP(w, r)
	})
}
