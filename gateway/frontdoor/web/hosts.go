package gateway

import (
	"net"
	"net/http"
	"sync/atomic"

	"github.com/capgate/capgate/gateway/filter"
	"github.com/capgate/capgate/gateway/frontdoor/problem"
	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/lib/hosts"
)

// Hosts are the names that the ports answer to. A browser that DNS rebinding has fooled sends others.
type Hosts struct {
	Public *hosts.Names // of the public port, where callers need no credential; nil: those of loopback and all addresses
	Admin  *hosts.Names // of the operators' port; nil: those of loopback, and the address that a connection came in on
}

// answers are the Hosts in force.
type answers struct{ public, admin atomic.Pointer[hosts.Names] }

// SetHosts changes the names that the ports answer to, from the next request on.
func (g *Gateway) SetHosts(h Hosts) { g.handler.answers.set(h) }

func (a *answers) set(h Hosts) {
	if h.Public == nil {
		h.Public = hosts.New(nil).WithAddresses()
	}
	if h.Admin == nil {
		h.Admin = hosts.New(nil)
	}
	a.public.Store(h.Public)
	a.admin.Store(h.Admin)
}

// checkHost refuses requests at the public port, or a listener, for a host name that is not its own, unless callers
// need a credential there. Browsers send the cookies of the inbox by themselves, so its requests are always checked.
func (h *handler) checkHost(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		v := webRequestOf(r)
		if (v.isInbox() || !h.callers.NeedsAt(v.client.At)) && !h.answers.public.Load().Allows(r.Host, nil) {
			problem.WithRequestID(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				problem.Write(w, r, problem.Of(v.refuse(hostRefusal(r.Host, "hosts"), 0)))
			})).ServeHTTP(w, r)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// checkCallHost is checkHost for gRPC. Clients that send te: trailers (gRPC over HTTP/2, "Requests") may use any name:
// a page cannot make a browser send it, as TE is a forbidden request-header (Fetch §2.2.2).
func (h *handler) checkCallHost(t *filter.Call) *call.Refusal {
	s := t.Stream
	if h.callers.NeedsAt(t.Client.At) || s.Peer().Internal {
		return nil
	}
	if te, _ := s.Header("te"); te == "trailers" || h.answers.public.Load().Allows(s.Authority(), nil) {
		return nil
	}
	return hostRefusal(s.Authority(), "hosts")
}

// checkAdminHost is checkHost for the admin API, where a browser may have a session.
func (a *answers) checkAdminHost(next http.Handler) http.Handler {
	refuse := problem.WithRequestID(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		problem.Write(w, r, problem.Of(GRPCStatus(hostRefusal(r.Host, "admin_hosts")).Err()))
	}))
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		own, _ := r.Context().Value(http.LocalAddrContextKey).(net.Addr)
		if nativeGRPC(r) || a.admin.Load().Allows(r.Host, own) {
			next.ServeHTTP(w, r)
			return
		}
		refuse.ServeHTTP(w, r)
	})
}

// nativeGRPC tells a call that no page can have a browser make.
func nativeGRPC(r *http.Request) bool { return r.ProtoMajor == 2 && r.Header.Get("Te") == "trailers" }

func hostRefusal(host, setting string) *call.Refusal {
	return &call.Refusal{Kind: call.PermissionDenied, Reason: "HOST_UNKNOWN",
		Metadata: map[string]string{"host": call.Quote(host)},
		Message: "this port does not answer to the name " + call.Quote(host) +
			": use localhost or its address, or have the gateway's configuration name it under " + setting}
}
