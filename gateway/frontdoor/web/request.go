package web

import (
	"context"
	"net/http"
	"sync/atomic"
	"time"

	"google.golang.org/grpc/codes"

	"github.com/capgate/capgate/gateway/client"
	"github.com/capgate/capgate/gateway/filter"
	"github.com/capgate/capgate/gateway/filter/trace"
	"github.com/capgate/capgate/gateway/frontdoor/bodybudget"
	"github.com/capgate/capgate/gateway/frontdoor/fairqueue"
	"github.com/capgate/capgate/gateway/frontdoor/problem"
	"github.com/capgate/capgate/gateway/frontdoor/request"
	"github.com/capgate/capgate/gateway/relay"
	"github.com/capgate/capgate/gateway/status"
	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/overload"
	"github.com/capgate/capgate/internal/telemetry"
	"github.com/capgate/capgate/internal/tenant"
)

// Request is a request to a front door. Its caller is authenticated once, and its calls inherit the result. It
// is the context of the request for the next handler, and implements bodybudget.Owner and request.Rejections.
type Request struct {
	request.Scope
	Caller

	Network string // network of the client, for fair shares of requests without a tenant
	Person  any    // session of a request to a SignIn door; nil means none

	s         *Server
	door      *door
	r         *http.Request
	peer      *relay.Peer // of an HTTP/1.1 request; nil for others
	looked    bool        // Identity and Refusal are the result of a lookup in memory, if known
	known     bool
	came      time.Time
	share     string    // tenant, for fair shares; empty if there is only one
	incoming  *incoming // memory for the body; nil means none
	waits     relay.WaitOf
	results   results     // held responses
	recorded  atomic.Bool // the request or its call is recorded
	inherited Inherited   // by its calls

	lasts   bool          // the response outlives its handler
	ended   chan struct{} // closed at the end of such a response; nil for HTTP/2
	aborted error         // such a response is incomplete

	capability, tool string // named by a rejected request; empty means none
}

// unauthenticated is the share of all requests without a valid credential. No tenant has this id.
const unauthenticated = bodybudget.Unknown

type requestKey struct{}

// Of returns the Request of a request that has passed Server.Client.
func Of(r *http.Request) *Request { return From(r.Context()) }

// From returns the Request that ctx belongs to.
func From(ctx context.Context) *Request {
	if v, ok := ctx.(*Request); ok {
		return v
	}
	return ctx.Value(requestKey{}).(*Request)
}

// Value implements context.Context.
func (v *Request) Value(key any) any {
	if key == (requestKey{}) {
		return v
	}
	return v.Scope.Value(key)
}

// WaitIn makes the end of the request interrupt a Waiter of the fair queue.
func (v *Request) WaitIn(w fairqueue.Waiter) bool {
	of, ok := relay.WaitIn(v.Context, w)
	if ok {
		v.waits = of
	}
	return ok
}

// EndWait ends such a wait. It reports whether the Waiter was interrupted, or may still be.
func (v *Request) EndWait() bool { return v.waits.End() }

// Within implements relay.WebContext.
func (v *Request) Within(ctx context.Context) context.Context {
	v.Context = ctx
	return v
}

// Client resolves the client and the door of each request. It creates the Request, unless Headers has created it.
func (s *Server) Client(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		v, early := r.Context().Value(requestKey{}).(*Request)
		if !early {
			v = &Request{s: s, peer: relay.PeerOf(r.Context()), share: unauthenticated}
			v.resolve(v.peer, fields(r.Header))
			r = r.WithContext(v.Within(r.Context()))
		}
		v.begin(r)
		next.ServeHTTP(w, request.WithRejections(r, v))
	})
}

// requestHeaders gives access to the headers of a request that describe its client and its trace.
type requestHeaders interface {
	client.Headers
	trace.Headers
}

// resolve sets the client of the request.
func (v *Request) resolve(p *relay.Peer, h requestHeaders) {
	v.Client, v.Details = client.Resolve(v.s.cfg.ClientAddr, p, h)
	v.Details.Drawn = v.s.cfg.Trace.Draw(h)
	v.Network = client.Network(p, v.Client.Address)
}

// begin sets the door of the request, whose context is v. No other copy of the request is kept, which a response that
// outlives its handler would hold, too.
func (v *Request) begin(r *http.Request) {
	v.r, v.came, v.inherited.Caller = r, time.Now(), &v.Caller
	v.door = v.s.match(r)
	v.Client.Protocol = v.door.Protocol(r)
}

// match returns the door of a request.
func (s *Server) match(r *http.Request) *door {
	last := len(s.doors) - 1
	for _, d := range s.doors[:last] {
		if d.Match(r) {
			return d
		}
	}
	return s.doors[last]
}

// Assume returns r as a request of the console, on behalf of who. address is the client's address, for the logs.
func (s *Server) Assume(r *http.Request, identity tenant.Identity, address string) *http.Request {
	v := &Request{s: s, peer: relay.PeerOf(r.Context()), share: unauthenticated, Network: address}
	v.Client = filter.Client{Address: address}
	v.Details.Drawn = s.cfg.Trace.Draw(fields(r.Header))
	r = r.WithContext(v.Within(r.Context()))
	v.begin(r)
	v.Client.Protocol = call.Console
	v.setIdentity(identity)
	return r
}

// Refuse records a rejected request, and returns the status of its response.
func (v *Request) Refuse(refusal *call.Refusal) error { return v.shed(refusal, overload.NoLimit, 0) }

// shed is Refuse for a limit of overload, after a number of bytes.
func (v *Request) shed(refusal *call.Refusal, limit overload.Limit, bytesIn int64) error {
	st := status.Of(refusal, call.NotSent)
	v.record(telemetry.Record{Code: uint32(st.Code()), Reason: refusal.Reason, BytesIn: bytesIn, Shed: limit})
	return st.Err()
}

// Rejected implements request.Rejections.
func (v *Request) Rejected(code codes.Code, reason string) {
	if !v.recorded.Load() {
		v.record(telemetry.Record{Code: uint32(code), Reason: reason})
	}
}

// Named implements request.Rejections.
func (v *Request) Named(capability, tool string) { v.capability, v.tool = capability, tool }

// record records a request without a call.
func (v *Request) record(rec telemetry.Record) {
	v.recorded.Store(true)
	rec.Call = &call.Call{Path: v.r.URL.Path, Tenant: v.Identity.Tenant, Key: v.Identity.Key, User: v.Identity.User,
		Agent: v.Identity.Agent, Capability: v.capability, Tool: v.tool}
	rec.Protocol = v.Client.Protocol
	rec.Client, rec.RequestID = v.Client.Address, v.r.Header.Get(problem.RequestID)
	rec.Started, rec.Ended, rec.Page = v.came, time.Since(v.came), v.Person != nil
	rec.TenantUID = v.Identity.Settings.UID()
	if at := v.Client.At; at != nil {
		rec.Listener = at.Name
	}
	v.s.cfg.Gateway.Record(&rec)
}
