package web

import (
	"context"
	"net/http"
	"sync/atomic"
	"time"

	"google.golang.org/grpc/codes"

	"github.com/capgate/capgate/gateway/client"
	"github.com/capgate/capgate/gateway/filter"
	"github.com/capgate/capgate/gateway/frontdoor/bodybudget"
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
// implements bodybudget.Owner and request.Rejections.
type Request struct {
	request.Scope // context of the request for the next handler
	Caller

	Network string // network of the client, for fair shares of requests without a tenant
	Person  any    // session of a request to a SignIn door; nil means none

	s         *Server
	door      *door
	r         *http.Request
	peer      *relay.Peer // of an HTTP/1.1 request; nil for others
	early     *early      // of an HTTP/2 request, until it is authenticated; nil for others
	came      time.Time
	share     string      // tenant, for fair shares; empty if there is only one
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
func From(ctx context.Context) *Request { return ctx.Value(requestKey{}).(*Request) }

// Client creates a Request: it resolves the client and the door of each request.
func (s *Server) Client(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var from Caller
		p := relay.PeerOf(r.Context())
		e, _ := relay.ValueOf(r.Context()).(*early)
		if e != nil {
			from.Client, from.Details = e.client, e.details
		} else {
			from.Client, from.Details = client.Resolve(s.cfg.ClientAddr, p, fields(r.Header))
			from.Details.Drawn = s.cfg.Trace.Draw(fields(r.Header))
		}
		v, r := s.begin(r, p, from, client.Network(p, from.Client.Address))
		v.early = e
		next.ServeHTTP(w, request.WithRejections(r, v))
	})
}

// begin returns the Request of r, and r with the Request in its context.
func (s *Server) begin(r *http.Request, p *relay.Peer, from Caller, network string) (*Request, *http.Request) {
	v := &Request{s: s, peer: p, came: time.Now(), share: unauthenticated, Network: network}
	v.Caller, v.Context, v.inherited.Caller = from, r.Context(), &v.Caller
	r = request.With(r.WithContext(&v.Scope), requestKey{}, v)
	v.r = r // not the one before, which a response that outlives its handler would hold, too
	v.door = s.match(r)
	v.Client.Protocol = v.door.Protocol(r)
	return v, r
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
	from := Caller{Client: filter.Client{Address: address}}
	from.Details.Drawn = s.cfg.Trace.Draw(fields(r.Header))
	v, r := s.begin(r, relay.PeerOf(r.Context()), from, address)
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
