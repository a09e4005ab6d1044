// Package web contains the middleware of the front doors, and the Request, their view of an HTTP request. Package
// frontdoor defines the order of the middleware.
//
//	request.go       a request: its client, its door, and its record if it starts no call
//	authenticate.go  looks up the caller once; headers.go reads the credential
//	stalls.go        clients that stall
//	middleware.go    panics, memory, hosts, the fair queue
//	hosts.go         host names that the ports accept
//	bodies.go        memory of bodies and responses, and its owners
//	outlive.go       responses that outlive their handlers
//	pages.go         requests from pages of other sites, traces of problems
//	inherit.go       properties that calls inherit from their request
package web

import (
	"net/http"
	"time"

	"github.com/capgate/capgate/gateway/filter/authenticate"
	"github.com/capgate/capgate/gateway/filter/trace"
	"github.com/capgate/capgate/gateway/frontdoor/bodybudget"
	"github.com/capgate/capgate/gateway/frontdoor/fairqueue"
	"github.com/capgate/capgate/gateway/frontdoor/header"
	"github.com/capgate/capgate/gateway/relay"
	"github.com/capgate/capgate/internal/clientaddr"
	"github.com/capgate/capgate/internal/lib/fairshare"
	"github.com/capgate/capgate/internal/overload"
	"github.com/capgate/capgate/internal/telemetry"
	"github.com/capgate/capgate/internal/tenant"
)

// Gateway is the part of the gateway that requests use.
type Gateway interface {
	// Authenticated records that a client with a valid credential uses a connection; nil for HTTP/2 requests, which
	// Headers reports.
	Authenticated(*relay.Peer)
	// SetTenant charges a connection to a tenant.
	SetTenant(*relay.Peer, *tenant.Settings)
	// Group returns the account of a tenant's streams.
	Group(*tenant.Settings) *relay.Group
	// Record writes the access log line of a request without a call.
	Record(*telemetry.Record)
}

// Config configures a Server. All fields but Overload are required.
type Config struct {
	Gateway         Gateway
	ClientAddr      *clientaddr.Resolver
	Callers         *authenticate.Callers
	Trace           trace.Filter
	Hosts           *Hosts
	Overload        *overload.Shedder // nil means no request is rejected
	Queue           *fairqueue.Queue
	Bodies          *bodybudget.Budget
	Calls           *fairshare.Pool // for requests, by tenant
	Unauthenticated *fairshare.Pool // for requests without a valid credential, by network
	Results         *fairshare.Pool // for responses
	Stall           time.Duration   // maximum time for which a client without a credential may send or read nothing
}

// Server provides the middleware. SetDoors must be called before it serves.
type Server struct {
	cfg   Config
	doors []*door
}

// door is a Door with the result of its Headers.
type door struct {
	Door
	headers header.Door
}

// New returns a Server.
func New(cfg Config) *Server { return &Server{cfg: cfg} }

// SetDoors sets the doors, in matching order. The last one must match all requests.
func (s *Server) SetDoors(all ...Door) {
	for _, d := range all {
		s.doors = append(s.doors, &door{d, d.Headers()})
	}
}

// ServeHTTP passes a request to its door.
func (*Server) ServeHTTP(w http.ResponseWriter, r *http.Request) { Of(r).door.ServeHTTP(w, r) }
