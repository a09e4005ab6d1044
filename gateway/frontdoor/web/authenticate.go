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

// lookup is the result of a lookup of a credential in memory.
type lookup struct {
	known    bool // identity or refusal is the result; otherwise the store must be used
	identity tenant.Identity
	refusal  *call.Refusal
}

// Headers creates the Request of an HTTP/2 request, which is its relay.WebContext: it resolves the client, and looks up
// the caller in memory. The memory that the relay holds for the request is charged to its tenant, if known. Headers
// implements relay.Config.Web, and runs on the connection's reader.
func (s *Server) Headers(st *relay.Stream) {
	v := &Request{s: s, share: unauthenticated}
	v.resolve(st.Peer(), st)
	st.Value = v
	recovery.Round("identity", func() {
		l := s.lookUp(stream{st}, v.Client.At, v.Details.Peer, strings.Clone)
		if l.known && l.refusal == nil {
			s.cfg.Gateway.Authenticated(st.Peer())
			st.Charge(s.cfg.Gateway.Group(l.identity.Settings)) // if there is no room, the relay refuses it
		}
		v.found(l)
	})
}

// found keeps the result of a lookup until the request is authenticated.
func (v *Request) found(l lookup) {
	v.looked, v.known, v.Identity, v.Refusal = true, l.known, l.identity, l.refusal
}

// lookUp looks up the caller of a request in memory. keep copies strings that may be parts of the headers.
func (s *Server) lookUp(h authenticate.Headers, at *tenant.Listener, peer *tenant.Peer, keep func(string) string,
) (l lookup) {
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
			v.found(lookup{}) // the credential of the headers does not count
			people.Identify(r)
		} else {
			v.authenticate()
		}
		if r.Context().Err() == nil { // otherwise the client has disconnected meanwhile
			next.ServeHTTP(w, r)
		}
	})
}

// authenticate sets the principal of a request, or its rejection. Over HTTP/2, Headers has already looked it up.
func (v *Request) authenticate() {
	if !v.looked {
		v.found(v.s.lookUp((*credentials)(v), v.Client.At, v.Details.Peer, func(s string) string { return s }))
	}
	if !v.known {
		v.Identity, v.Refusal = v.wait()
	}
	if v.Refusal == nil {
		v.Authenticated(v.Identity)
	} else {
		v.Identity = tenant.Identity{}
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
