package web

import (
	"context"
	"net/http"
	"strings"

	"github.com/capgate/capgate/gateway/client"
	"github.com/capgate/capgate/gateway/filter"
	"github.com/capgate/capgate/gateway/filter/authenticate"
	"github.com/capgate/capgate/gateway/relay"
	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/lib/recovery"
	"github.com/capgate/capgate/internal/tenant"
)

// early is the result of Headers for an HTTP/2 request. It is the Value of the request's stream.
type early struct {
	client  filter.Client
	details filter.ClientDetails
	lookup  lookup
}

// lookup is the result of a lookup of a credential in memory.
type lookup struct {
	done     bool // the lookup is complete, or impossible with the credential of the headers
	known    bool // identity or refusal is the result; otherwise the store must be used
	identity tenant.Identity
	refusal  *call.Refusal
}

// Headers resolves the client of an HTTP/2 request, and looks up its caller in memory. The memory that the relay holds
// for the request is charged to its tenant, if known. Headers implements relay.Config.Web, and runs on the
// connection's reader.
func (s *Server) Headers(st *relay.Stream) {
	e := &early{}
	e.client, e.details = client.Resolve(s.cfg.ClientAddr, st.Peer(), st)
	e.details.Drawn = s.cfg.Trace.Draw(st)
	st.Value = e
	recovery.Round("identity", func() {
		l := s.lookUp(stream{st}, e.client.At, e.details.Peer, strings.Clone)
		if l.known && l.refusal == nil {
			s.cfg.Gateway.Authenticated(st.Peer())
			st.Charge(s.cfg.Gateway.Group(l.identity.Settings)) // if there is no room, the relay refuses it
		}
		e.lookup = l
	})
}

// lookUp looks up the caller of a request in memory. keep copies strings that may be parts of the headers.
func (s *Server) lookUp(h authenticate.Headers, at *tenant.Listener, peer *tenant.Peer, keep func(string) string,
) (l lookup) {
	l.done = true
	claim, refusal := s.cfg.Callers.Credentials(h, at, peer)
	if refusal != nil {
		l.known, l.refusal = true, refusal
		return l
	}
	l.identity, l.known, l.refusal = s.cfg.Callers.Lookup(claim)
	l.identity.User, l.identity.Agent = keep(l.identity.User), keep(l.identity.Agent)
	return l
}

// Authenticate determines the principal of each request, or its rejection. It waits for the store if a credential is
// not in memory; the number of waiting requests of an address is limited.
func (s *Server) Authenticate(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		v := Of(r)
		if people, ok := v.door.Door.(SignIn); ok {
			people.Identify(r)
		} else {
			v.authenticate()
		}
		v.early = nil                 // the response may outlive it
		if r.Context().Err() == nil { // otherwise the client has disconnected meanwhile
			next.ServeHTTP(w, r)
		}
	})
}

// authenticate sets the principal of a request, or its rejection. Over HTTP/2, Headers has already looked it up.
func (v *Request) authenticate() {
	var l lookup
	if v.early != nil {
		l = v.early.lookup
	}
	if !l.done {
		l = v.s.lookUp((*credentials)(v), v.Client.At, v.Details.Peer, func(s string) string { return s })
	}
	if !l.known {
		l.identity, l.refusal = v.wait()
	}
	if v.Refusal = l.refusal; l.refusal == nil {
		v.Authenticated(l.identity)
	}
}

// Authenticated sets the principal of a request with a valid credential or session.
func (v *Request) Authenticated(identity tenant.Identity) {
	v.setIdentity(identity)
	v.s.cfg.Gateway.Authenticated(v.peer)
}

// setIdentity sets the principal of a request.
func (v *Request) setIdentity(identity tenant.Identity) {
	if v.Identity, v.share = identity, identity.Tenant; identity.Settings == nil {
		v.share = ""
	}
	if v.peer != nil {
		v.s.cfg.Gateway.SetTenant(v.peer, identity.Settings)
	}
}

// wait waits for the identity of a credential that is not in memory. Meanwhile the memory of an HTTP/1.1 request,
// besides its body, is charged to its address; Memory later charges it to its tenant.
func (v *Request) wait() (identity tenant.Identity, refusal *call.Refusal) {
	if v.peer != nil {
		account, cost := v.s.cfg.Unauthenticated.Of(client.Of(v.peer).Prefix), relay.RequestCost(v.r)
		if !account.Reserve(cost) {
			return identity, filter.TooMany(identity)
		}
		defer account.Release(cost)
	}
	claim, refusal := v.s.cfg.Callers.Credentials((*credentials)(v), v.Client.At, v.Details.Peer)
	if refusal != nil {
		return identity, refusal
	}
	ctx, cancel := v.r.Context(), context.CancelFunc(func() {})
	if timeout, present := v.door.Timeout(v.r); present {
		ctx, cancel = context.WithTimeout(ctx, timeout)
	}
	defer cancel()
	if identity, refusal = v.s.cfg.Callers.Wait(ctx, v.Network, claim); refusal != nil && v.r.Context().Err() == nil &&
		ctx.Err() != nil {
		refusal = refusedLate
	}
	return identity, refusal
}

// refusedLate rejects a request whose deadline passed before its caller was authenticated.
var refusedLate = &call.Refusal{Kind: call.DeadlineExceeded, Reason: "DEADLINE_EXCEEDED",
	Message: "the call's deadline has passed"}
