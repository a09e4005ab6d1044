package web

import (
	"context"
	"net/http"
	"sync/atomic"
	"time"

	"google.golang.org/grpc/codes"

	"github.com/capgate/capgate/gateway/filter"
	"github.com/capgate/capgate/gateway/filter/authenticate"
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

// Request is a request to a front door. Its caller is authenticated once: the calls that the front door makes for the
// request inherit the result. It implements bodybudget.Owner and request.Rejections.
type Request struct {
	request.Scope // of the request that the next handler gets
	Inherited

	Network string // of the client, for fair shares of requests without a tenant
	Person  any    // session of a request to a SignIn door; nil: there is none

	s        *Server
	door     *door
	r        *http.Request
	came     time.Time
	share    string      // its tenant, for fair shares; "" if there is only one
	results  results     // that it holds
	recorded atomic.Bool // it is recorded, or a call of it, which records itself
}

// Inherited is what a call inherits from the request that a front door makes it for: the Value of its relay.Request.
// The call must not change it.
type Inherited struct {
	authenticate.Inherited
	Client          filter.Client
	IdempotencyKeys []string
	Asked           func(call.Approval) (wait time.Duration)
}

// Inherit gives a call what it inherits from the request of ctx.
func Inherit(ctx context.Context, q *relay.Request) {
	fairqueue.CallStarted(ctx)
	v, ok := ctx.Value(requestKey{}).(*Request)
	if !ok {
		return
	}
	v.recorded.Store(true)
	q.Hold = &v.results
	q.Value = &v.Inherited
	if c := request.CallOf(ctx); len(c.IdempotencyKeys) > 0 || c.Signature != "" || c.Asked != nil {
		own := v.Inherited
		own.Signature, own.IdempotencyKeys, own.Asked = c.Signature, c.IdempotencyKeys, c.Asked
		q.Value = &own
	}
}

// unauthenticated is the share of all requests without a valid credential. It is no valid id of a tenant.
const unauthenticated = bodybudget.Unknown

type requestKey struct{}

// Of returns the Request of a request that has passed Server.Client.
func Of(r *http.Request) *Request { return From(r.Context()) }

// From returns the Request that ctx belongs to.
func From(ctx context.Context) *Request { return ctx.Value(requestKey{}).(*Request) }

// begin returns the Request of r, and r with it in its context.
func (s *Server) begin(r *http.Request, client filter.Client, network string) (*Request, *http.Request) {
	v := &Request{s: s, r: r, came: time.Now(), share: unauthenticated, Network: network}
	v.Client, v.Context = client, r.Context()
	r = request.With(r.WithContext(&v.Scope), requestKey{}, v)
	v.door = s.match(r)
	v.Client.Protocol = v.door.Protocol(r)
	return v, r
}

// Assume returns r as a request of the console, whose caller is known. The address is the client's, for the logs.
func (s *Server) Assume(r *http.Request, who tenant.Identity, address string) *http.Request {
	v, r := s.begin(r, filter.Client{Address: address, Drawn: s.cfg.Trace.Draw(fields(r.Header))}, address)
	v.Client.Protocol = call.Console
	v.setIdentity(who)
	return r
}

// setIdentity sets the principal of a request.
func (v *Request) setIdentity(who tenant.Identity) {
	if v.Identity, v.share = who, who.Tenant; who.Settings == nil {
		v.share = ""
	}
	if p := relay.PeerOf(v.r.Context()); p != nil {
		v.s.cfg.Gateway.SetTenant(p, who.Settings)
	}
}

// Account implements bodybudget.Owner. Requests share by tenant, and by client address if they have none.
func (v *Request) Account() (share, from string) {
	if v.share == unauthenticated || v.share == "" {
		return v.share, v.Network
	}
	return v.share, ""
}

// Owner returns the UID of the tenant, or the network of a client without one. The names differ.
func (v *Request) Owner() string {
	if v.share == unauthenticated || v.share == "" {
		return "network " + v.Network
	}
	return "tenant " + v.share + "/" + v.Identity.Settings.UID() // there is none of a tenant of the file
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
	return v.shed(filter.TooMany(v.Identity), limit.String(), 0)
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
	if err := v.shed(refusal, filter.ByBodies, read); read == 0 {
		return err
	}
	return status.Answer(refusal).Err() // of an upload, a backend may have got what was read
}

// Refuse records a rejected request, and returns the status of its answer.
func (v *Request) Refuse(refusal *call.Refusal) error { return v.shed(refusal, "", 0) }

// shed is Refuse for a limit of overload, after a number of bytes. An empty limit is another reason.
func (v *Request) shed(refusal *call.Refusal, limit string, bytesIn int64) error {
	st := status.Of(refusal, call.NotSent)
	v.record(telemetry.Record{Code: uint32(st.Code()), Reason: refusal.Reason, BytesIn: bytesIn, Shed: limit != "",
		ShedBy: limit})
	return st.Err()
}

// Rejected implements request.Rejections.
func (v *Request) Rejected(code codes.Code, reason string) {
	if !v.recorded.Load() {
		v.record(telemetry.Record{Code: uint32(code), Reason: reason})
	}
}

// record records a request that became no call.
func (v *Request) record(rec telemetry.Record) {
	v.recorded.Store(true)
	rec.Call = &call.Call{Path: v.r.URL.Path, Tenant: v.Identity.Tenant, Key: v.Identity.Key, User: v.Identity.User,
		Agent: v.Identity.Agent}
	rec.Protocol = v.Client.Protocol
	rec.Client, rec.RequestID = v.Client.Address, v.r.Header.Get(problem.RequestID)
	rec.Started, rec.Ended, rec.Page = v.came, time.Since(v.came), v.Person != nil
	if at := v.Client.At; at != nil {
		rec.Listener = at.Name
	}
	v.s.cfg.Gateway.Record(&rec)
}
