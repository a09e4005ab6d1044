package gateway

import (
	"context"
	"net/http"
	"time"

	"github.com/capgate/capgate/gateway/filter"
	"github.com/capgate/capgate/gateway/frontdoor/bodybudget"
	"github.com/capgate/capgate/gateway/relay"
	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/telemetry"
	"github.com/capgate/capgate/internal/tenant"
)

// visit is a request by HTTP that has not become a call yet. When it does the call is identified and decided
// on like any other: what is found out before is only about whose turn it is.
type visit struct {
	h     *handler
	r     *http.Request
	came  time.Time
	who   tenant.Identity // as far as it is known
	share string          // the tenant with whom it shares; "" where there is one only
	from  string          // its address, by which those are told apart that are no tenant's
}

// strangers is the share of all whom memory does not know; no tenant's id is like it.
const strangers = bodybudget.Unknown

type visitKey struct{}

// visiting looks whom memory knows for the callers of next's requests.
func (h *handler) visiting(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		v := &visit{h: h, r: r, came: time.Now(), share: strangers}
		v.from = addressOf(parseOrigin(r.Header.Get(originHeader)).Address)
		if claim, refusal := v.claim(); refusal == nil {
			if who, known, refusal := h.callers.Lookup(claim); known && refusal == nil {
				v.is(who)
				h.authenticated(relay.PeerOf(r.Context()))
			}
		}
		next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), visitKey{}, v)))
	})
}

// visitOf is the visit that visiting made.
func visitOf(r *http.Request) *visit { return r.Context().Value(visitKey{}).(*visit) }

func (v *visit) is(who tenant.Identity) {
	if v.who, v.share = who, who.Tenant; who.Settings == nil {
		v.share = ""
	}
	if p := relay.PeerOf(v.r.Context()); p != nil {
		v.h.relay.Adopt(p, v.h.bandwidth.GroupOf(who.Settings))
	}
}

// Account implements bodybudget.Owner. A request waits, and holds its body, with its tenant's, or, where it is no tenant's or
// that is not known, with those of its address.
func (v *visit) Account() (share, from string) {
	if v.share == strangers || v.share == "" {
		return v.share, v.from
	}
	return v.share, ""
}

// Authenticate implements bodybudget.Owner.
func (v *visit) Authenticate(ctx context.Context) error {
	if v.share != strangers {
		return nil
	}
	claim, refusal := v.claim()
	if refusal == nil {
		var who tenant.Identity
		if who, refusal = v.h.callers.wait(ctx, v.from, claim); refusal == nil {
			v.is(who)
			v.h.authenticated(relay.PeerOf(v.r.Context()))
			return nil
		}
	}
	return v.refuse(refusal, 0)
}

// Exceeded implements bodybudget.Owner.
func (v *visit) Exceeded(read int64) error { return v.refuse(filter.TooMany(v.who), read) }

func (v *visit) claim() (tenant.Credentials, *call.Refusal) {
	return claimOf(webHeaders(v.r.Header), v.h.callers.credentials, parseOrigin(v.r.Header.Get(originHeader)).Peer)
}

// refuse records a request that becomes no call as if it were one, and is the status of its answer.
func (v *visit) refuse(refusal *call.Refusal, bytesIn int64) error {
	h, st := v.h, GRPCStatus(refusal)
	c := call.Call{Path: v.r.URL.Path, Tenant: v.who.Tenant, Key: v.who.Key, User: v.who.User, Agent: v.who.Agent}
	rec := telemetry.Record{
		Call: &c, Client: parseOrigin(v.r.Header.Get(originHeader)).Address, Code: uint32(st.Code()), Reason: refusal.Reason, RequestID: v.r.Header.Get(requestIDHeader),
		BytesIn: bytesIn, Started: v.came, Ended: time.Since(v.came), Shed: refusal == filter.OverFairShare || refusal == filter.Overloaded,
	}
	if c.Tenant != "" {
		rec.Tenant = h.metrics.Tenant(c.Tenant)
	}
	rec.Quiet = rec.Shed && h.overload.Quiet(time.Now())
	h.recorder.Record(&rec)
	accessLog{h: h}.recordAudit(&callState{Call: filter.Call{Info: c}}, &rec)
	return st.Err()
}

// Contradicts says that a header is there twice, with different values.
func (w webHeaders) Contradicts(name string) bool {
	values := http.Header(w).Values(name)
	for _, v := range values {
		if v != values[0] {
			return true
		}
	}
	return false
}

// DropHeader drops nothing: the call that the request becomes has its own headers.
func (w webHeaders) DropHeader(string) {}
