package web

import (
	"context"
	"net/http"
	"strings"

	"github.com/capgate/capgate/gateway/client"
	"github.com/capgate/capgate/gateway/filter"
	"github.com/capgate/capgate/gateway/filter/authenticate"
	"github.com/capgate/capgate/gateway/frontdoor/header"
	"github.com/capgate/capgate/gateway/frontdoor/request"
	"github.com/capgate/capgate/gateway/relay"
	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/lib/recovery"
	"github.com/capgate/capgate/internal/tenant"
)

// early is the result of Headers for a request over HTTP/2. It is the Value of the request's stream.
type early struct {
	client filter.Client
	lookup lookup
}

// lookup is the result of a lookup of a credential in memory.
type lookup struct {
	done    bool // there was one, or the headers have no credential that could be looked up
	known   bool // who or refusal is the result; else the store has to be asked
	who     tenant.Identity
	refusal *call.Refusal
}

// Headers resolves the client of a request over HTTP/2, and looks its caller up. The memory that the relay holds for
// the request is charged to its tenant, if that is known. It is relay.Config.Web, and runs on the connection's reader.
func (s *Server) Headers(st *relay.Stream) {
	e := &early{client: client.Resolve(s.cfg.ClientAddr, st.Peer(), st)}
	e.client.Drawn = s.cfg.Trace.Draw(st)
	st.Value = e
	recovery.Round("identity", func() {
		l := s.lookUp(stream{st}, &e.client, strings.Clone)
		if l.known && l.refusal == nil {
			s.cfg.Gateway.Authenticated(st.Peer())
			st.Charge(s.cfg.Gateway.Group(l.who.Settings)) // without room the relay refuses it
		}
		e.lookup = l
	})
}

// lookUp looks the caller of a request up in memory. The function keep copies strings that may be parts of the headers.
func (s *Server) lookUp(h authenticate.Headers, from *filter.Client, keep func(string) string) (l lookup) {
	l.done = true
	claim, refusal := s.cfg.Callers.Credentials(h, from)
	if refusal != nil {
		l.known, l.refusal = true, refusal
		return l
	}
	l.who, l.known, l.refusal = s.cfg.Callers.Lookup(claim)
	l.who.User, l.who.Agent = keep(l.who.User), keep(l.who.Agent)
	return l
}

// Client begins a Request: it resolves the client of each request, and finds the door.
func (s *Server) Client(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var c filter.Client
		p := relay.PeerOf(r.Context())
		e, seen := relay.ValueOf(r.Context()).(*early)
		if seen {
			c = e.client
		} else {
			c = client.Resolve(s.cfg.ClientAddr, p, fields(r.Header))
			c.Drawn = s.cfg.Trace.Draw(fields(r.Header))
		}
		v, r := s.begin(r, c, client.Network(p, c.Address))
		next.ServeHTTP(w, request.WithRejections(r, v))
	})
}

// Authenticate finds the principal of each request, or why it is rejected. It waits for the store if a credential is
// not known from memory; the number of requests of an address that wait is bounded.
func (s *Server) Authenticate(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		v := Of(r)
		if people, ok := v.door.Door.(SignIn); ok {
			people.Identify(r)
		} else {
			v.authenticate()
		}
		if r.Context().Err() == nil { // else the client has left meanwhile
			next.ServeHTTP(w, r)
		}
	})
}

// authenticate sets the principal of a request, or why it is rejected. Over HTTP/2 Headers has looked it up.
func (v *Request) authenticate() {
	var l lookup
	if e, ok := relay.ValueOf(v.r.Context()).(*early); ok {
		l = e.lookup
	}
	if !l.done {
		l = v.s.lookUp((*credentials)(v), &v.Client, func(s string) string { return s })
	}
	if !l.known {
		l.who, l.refusal = v.wait()
	}
	if v.Refusal = l.refusal; l.refusal == nil {
		v.Authenticated(l.who)
	}
}

// Authenticated sets the principal of a request, whose credential or session is valid.
func (v *Request) Authenticated(who tenant.Identity) {
	v.setIdentity(who)
	v.s.cfg.Gateway.Authenticated(relay.PeerOf(v.r.Context()))
}

// wait waits for the identity of a credential that is not known from memory. Meanwhile the memory of a request over
// HTTP/1.1, besides its body, is charged to its address; Memory charges it to its tenant.
func (v *Request) wait() (who tenant.Identity, refusal *call.Refusal) {
	if p := relay.PeerOf(v.r.Context()); p != nil {
		account, cost := v.s.cfg.Unauthenticated.Of(client.Of(p).Prefix), relay.RequestCost(v.r)
		if !account.Reserve(cost) {
			return who, filter.TooMany(who)
		}
		defer account.Release(cost)
	}
	claim, refusal := v.s.cfg.Callers.Credentials((*credentials)(v), &v.Client)
	if refusal != nil {
		return who, refusal
	}
	ctx, cancel := v.r.Context(), context.CancelFunc(func() {})
	if timeout, present := v.door.Timeout(v.r); present {
		ctx, cancel = context.WithTimeout(ctx, timeout)
	}
	defer cancel()
	if who, refusal = v.s.cfg.Callers.Wait(ctx, v.Network, claim); refusal != nil && v.r.Context().Err() == nil &&
		ctx.Err() != nil {
		refusal = refusedLate
	}
	return who, refusal
}

// refusedLate rejects a request whose deadline passed before its caller was authenticated.
var refusedLate = &call.Refusal{Kind: call.DeadlineExceeded, Reason: "DEADLINE_EXCEEDED",
	Message: "the call's time is over"}

// stream is a stream of a request over HTTP/2. It implements authenticate.Headers.
type stream struct{ *relay.Stream }

// Header returns a header. Only signed URLs have a signature.
func (s stream) Header(name string) (string, bool) {
	if name == authenticate.SignatureHeader {
		return "", false
	}
	return s.Stream.Header(name)
}

// DropHeader drops nothing: the front doors get the whole request.
func (stream) DropHeader(string) {}

// credentials are the headers of a request that tell its caller. It implements authenticate.Headers.
type credentials Request

// Header returns a header as the calls of the request have it. Only signed URLs have a signature.
func (c *credentials) Header(name string) (string, bool) {
	if name == authenticate.SignatureHeader {
		return "", false
	}
	return fields(c.r.Header).Header(name)
}

// Contradicts reports whether a header that the call has has different values.
func (c *credentials) Contradicts(name string) bool {
	_, present := c.Header(name)
	return present && fields(c.r.Header).Contradicts(name)
}

// DropHeader drops nothing: the call that the request becomes has its own headers.
func (*credentials) DropHeader(string) {}

// fields are the headers of a request, by names in lower case.
type fields http.Header

// Header returns the first value of a header.
func (f fields) Header(name string) (string, bool) {
	v := f[header.Key(name)]
	if len(v) == 0 {
		return "", false
	}
	return v[0], true
}

// AppendHeader appends all values of a header.
func (f fields) AppendHeader(b []byte, name string) []byte {
	return append(b, strings.Join(http.Header(f).Values(name), ",")...)
}

// Contradicts reports whether a header has different values.
func (f fields) Contradicts(name string) bool {
	values := f[header.Key(name)]
	for _, v := range values {
		if v != values[0] {
			return true
		}
	}
	return false
}
