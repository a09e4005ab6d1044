package web

import (
	"net"
	"net/http"
	"sync/atomic"

	"github.com/capgate/capgate/gateway/filter"
	"github.com/capgate/capgate/gateway/filter/authenticate"
	"github.com/capgate/capgate/gateway/frontdoor/problem"
	"github.com/capgate/capgate/gateway/status"
	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/lib/hosts"
)

// Names holds the host names that the ports accept. Browsers affected by DNS rebinding send other names.
type Names struct {
	// Public is for the public port, if callers need no credential; nil means loopback and all addresses.
	Public *hosts.Names
	// Admin is for the admin API; nil means loopback, and the local address of the connection.
	Admin *hosts.Names
}

// Hosts checks the host names of requests. Set changes the accepted names.
type Hosts struct {
	callers       *authenticate.Callers
	public, admin atomic.Pointer[hosts.Names]
}

// NewHosts returns Hosts. callers reports whether callers need a credential.
func NewHosts(callers *authenticate.Callers, n Names) *Hosts {
	h := &Hosts{callers: callers}
	h.Set(n)
	return h
}

// Set replaces the names.
func (h *Hosts) Set(n Names) {
	if n.Public == nil {
		n.Public = hosts.New(nil).WithAddresses()
	}
	if n.Admin == nil {
		n.Admin = hosts.New(nil)
	}
	h.public.Store(n.Public)
	h.admin.Store(n.Admin)
}

// allows reports whether the public port, or a listener, accepts a name.
func (h *Hosts) allows(host string) bool { return h.public.Load().Allows(host, nil) }

// CheckCall implements Server.Host for gRPC. Clients that send te: trailers (gRPC over HTTP/2, "Requests") may use any
// name: a page cannot make a browser send it, because TE is a forbidden request-header (Fetch §2.2.2).
func (h *Hosts) CheckCall(t *filter.Call) *call.Refusal {
	s := t.Stream
	if h.callers.NeedsAt(t.Client.At) || s.Peer().Internal {
		return nil
	}
	if te, _ := s.Header("te"); te == "trailers" || h.allows(s.Authority()) {
		return nil
	}
	return hostRefusal(s.Authority(), "hosts")
}

// Admin implements Server.Host for the admin API, where a browser may have a session.
func (h *Hosts) Admin(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		own, _ := r.Context().Value(http.LocalAddrContextKey).(net.Addr)
		if nativeGRPC(r) || h.admin.Load().Allows(r.Host, own) {
			next.ServeHTTP(w, r)
			return
		}
		problem.Write(w, r, problem.Of(status.Answer(hostRefusal(r.Host, "admin_hosts")).Err()))
	})
}

// nativeGRPC reports whether a request cannot come from a page in a browser.
func nativeGRPC(r *http.Request) bool { return r.ProtoMajor == 2 && r.Header.Get("Te") == "trailers" }

func hostRefusal(host, setting string) *call.Refusal {
	return &call.Refusal{Kind: call.PermissionDenied, Reason: "HOST_UNKNOWN",
		Metadata: map[string]string{"host": call.Quote(host)},
		Message: "this port does not accept the host name " + call.Quote(host) +
			": use localhost or its address, or add the name to the gateway's configuration, under " + setting}
}
