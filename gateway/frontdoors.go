package gateway

import (
	"fmt"
	"net/http"
	"time"

	"github.com/capgate/capgate/console"
	"github.com/capgate/capgate/gateway/client"
	"github.com/capgate/capgate/gateway/frontdoor"
	"github.com/capgate/capgate/gateway/frontdoor/fairqueue"
	"github.com/capgate/capgate/gateway/frontdoor/mcp"
	"github.com/capgate/capgate/gateway/frontdoor/mcp/tools"
	"github.com/capgate/capgate/gateway/frontdoor/web"
	"github.com/capgate/capgate/gateway/localgrpc"
	"github.com/capgate/capgate/gateway/relay"
	"github.com/capgate/capgate/internal/telemetry"
	"github.com/capgate/capgate/internal/tenant"
)

const (
	waitingRequests = 1024             // Capacity.MaxWaiting
	heldBodies      = 256 << 20        // Capacity.MaxBodies
	defaultStall    = 30 * time.Second // Clients.Stall
)

// newDoors builds the front doors. The caller must set the relay of their calls.
func (g *Gateway) newDoors(queue *fairqueue.Queue) (inside *localgrpc.Conn, err error) {
	h, cfg := g.handler, &g.cfg
	inside = &localgrpc.Conn{Caller: web.Inherit, MaxMessage: maxMessage}
	g.mcp, err = tools.New(cfg.Doors.MCP, tools.Deps{Conn: inside, Router: cfg.Routing.Router, Features: g.features,
		Stored: cfg.Routing.Idempotency, Metrics: cfg.Observe.Metrics})
	if err != nil {
		return nil, err
	}
	api := cfg.Doors.REST
	api.Features = g.mcp
	api.MaxBody, api.Unary, api.Page = maxMessage, inside.Unary, console.Handler(console.Docs)
	api.EventSource = func(capability, tool string) bool {
		return cfg.Routing.Router.Table().Fleet(capability).EventSource(tool)
	}
	api.Owner = func(r *http.Request) string { return web.Of(r).Owner() }
	g.web = web.New(web.Config{
		Gateway: h, ClientAddr: cfg.Clients.Addr, Callers: h.callers, Trace: h.trace, Hosts: h.hosts,
		Overload: cfg.Capacity.Overload, Queue: queue, Bodies: g.bodies, Calls: h.shares.calls,
		Unauthenticated: h.shares.unauthenticated, Results: h.shares.results, Stall: cfg.Clients.Stall,
	})
	g.doors, err = frontdoor.New(frontdoor.Config{Web: g.web, Conn: inside, Inbox: cfg.Doors.Inbox, MCP: g.mcp,
		REST: api, Connect: cfg.Doors.Connect, CORS: cfg.Doors.CORS, Keys: cfg.Doors.Keys, Leaving: g.leaving})
	if err != nil {
		return nil, fmt.Errorf("front doors: %w", err)
	}
	return inside, nil
}

// Doors returns the front doors.
func (g *Gateway) Doors() *frontdoor.Doors { return g.doors }

// SetMCP changes the settings of MCP for new requests.
func (g *Gateway) SetMCP(s mcp.Settings) { g.mcp.Set(s) }

// ToolsetsChanged notifies the clients of MCP whose toolsets have changed.
func (g *Gateway) ToolsetsChanged() { g.mcp.ToolsetsChanged() }

// CancelMCP ends an MCP request that was cancelled at another replica, if this replica serves it.
func (g *Gateway) CancelMCP(request string) { g.mcp.Cancel(request) }

// SetHosts changes the host names that the ports accept.
func (g *Gateway) SetHosts(names web.Names) { g.handler.hosts.Set(names) }

// reservedPart is the divisor of the connection limit: that part is reserved for networks with a recently
// authenticated client.
const reservedPart = 8

// Authenticated implements web.Gateway. It marks the connection's network as recently authenticated.
func (h *handler) Authenticated(p *relay.Peer) {
	if p != nil && !p.Internal && h.callers.NeedsAt(client.Of(p).At) {
		h.relay.Authenticated(p)
	}
}

// SetTenant implements web.Gateway.
func (h *handler) SetTenant(p *relay.Peer, of *tenant.Settings) { h.relay.SetGroup(p, h.Group(of)) }

// Group implements web.Gateway.
func (h *handler) Group(of *tenant.Settings) *relay.Group { return h.bandwidth.GroupOf(of) }

// Record implements web.Gateway.
func (h *handler) Record(rec *telemetry.Record) {
	if of := rec.Call.Tenant; of != "" {
		rec.Tenant = h.cfg.Observe.Metrics.Tenant(of)
	}
	h.accesslog(false).Record(rec, false)
}
