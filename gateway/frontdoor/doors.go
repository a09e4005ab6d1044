// Package frontdoor serves HTTP requests other than gRPC. It defines the middleware that each request passes, and the
// doors, one for each protocol.
package frontdoor

import (
	"fmt"
	"net/http"

	"github.com/capgate/capgate/gateway/frontdoor/connect"
	"github.com/capgate/capgate/gateway/frontdoor/cors"
	"github.com/capgate/capgate/gateway/frontdoor/health"
	"github.com/capgate/capgate/gateway/frontdoor/inbox"
	"github.com/capgate/capgate/gateway/frontdoor/jwks"
	"github.com/capgate/capgate/gateway/frontdoor/mcp/tools"
	"github.com/capgate/capgate/gateway/frontdoor/problem"
	"github.com/capgate/capgate/gateway/frontdoor/registry"
	"github.com/capgate/capgate/gateway/frontdoor/rest"
	"github.com/capgate/capgate/gateway/frontdoor/web"
	"github.com/capgate/capgate/gateway/localgrpc"
)

// Config configures Doors. Web, Conn, MCP and Leaving are required.
type Config struct {
	Web     *web.Server
	Conn    *localgrpc.Conn // makes the calls of the doors
	Inbox   *inbox.Config   // optional
	MCP     *tools.Door
	REST    rest.Config
	Connect connect.Config
	CORS    cors.Config
	Keys    jwks.Keys   // of assertions; nil means none are published
	Leaving func() bool // reports whether clients should use another replica
}

// Doors handles all HTTP requests other than gRPC.
type Doors struct {
	http.Handler
	Web  *web.Server
	own  http.Handler // requests of the gateway itself, whose caller is known
	conn *localgrpc.Conn
}

// New returns the Doors of a gateway.
func New(cfg Config) (*Doors, error) {
	api, err := rest.New(cfg.Conn, cfg.REST)
	if err != nil {
		return nil, fmt.Errorf("json api: %w", err)
	}
	// The doors, in matching order.
	s := cfg.Web
	s.SetDoors(
		inbox.New(cfg.Inbox, api),
		cfg.MCP,
		registry.New(cfg.Conn, cfg.MCP),
		jwks.New(cfg.Keys),
		connect.New(connect.Over(cfg.Conn), cfg.Connect),
		api,
	)
	// The middleware of every request, outermost first.
	outer := []middleware{
		web.Recover("http"),
		problem.WithRequestID,
		health.New(cfg.Leaving),
		s.Client,
		s.Authenticate,
		s.Stall,
		s.Memory,
		s.Host,
		s.Queue,
		s.Bodies,
	}
	inner := []middleware{
		problem.Check,
		s.Trace,
		s.Pages(cfg.CORS),
	}
	d := &Doors{Web: s, conn: cfg.Conn}
	d.Handler = behind(append(outer, inner...), s)
	d.own = behind(append([]middleware{problem.WithRequestID}, inner...), s)
	return d, nil
}

// middleware wraps a handler.
type middleware func(http.Handler) http.Handler

// behind wraps h in middleware, outermost first.
func behind(all []middleware, h http.Handler) http.Handler {
	for i := len(all) - 1; i >= 0; i-- {
		h = all[i](h)
	}
	return h
}
