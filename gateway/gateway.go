package gateway

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/reflection"

	"github.com/capgate/capgate/gateway/client"
	"github.com/capgate/capgate/gateway/engine"
	"github.com/capgate/capgate/gateway/filter"
	"github.com/capgate/capgate/gateway/frontdoor"
	"github.com/capgate/capgate/gateway/frontdoor/bodybudget"
	"github.com/capgate/capgate/gateway/frontdoor/fairqueue"
	"github.com/capgate/capgate/gateway/frontdoor/mcp/tools"
	"github.com/capgate/capgate/gateway/frontdoor/problem"
	"github.com/capgate/capgate/gateway/frontdoor/web"
	"github.com/capgate/capgate/gateway/localgrpc"
	"github.com/capgate/capgate/gateway/relay"
	"github.com/capgate/capgate/gateway/relay/accept"
	"github.com/capgate/capgate/gateway/status"
	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/clientaddr"
	"github.com/capgate/capgate/internal/lib/fairshare"
	"github.com/capgate/capgate/internal/lib/recovery"
	"github.com/capgate/capgate/internal/tenant"
	"github.com/capgate/capgate/router"
)

// maxMessage is the maximum message size of in-process services, in bytes, as in the live orchestrator.
const maxMessage = 16 << 20

// Gateway serves clients on one port and the admin API on another.
type Gateway struct {
	cfg          Config
	relay        *relay.Relay
	handler      *handler
	health       *health.Server
	bodies       *bodybudget.Budget
	web          *web.Server
	doors        *frontdoor.Doors // HTTP requests other than gRPC
	mcp          *tools.Door
	internalConn *localgrpc.Conn // the gateway's own calls
	guard        *engine.Guard
	directory    *directory
	operators    http.Handler // admin API
	admin        *relay.Relay // serves operators
	ports        listeners
	draining     atomic.Bool
	drainConfig  atomic.Pointer[Drain]
}

// New returns a Gateway, which Run serves and ends.
func New(cfg Config) (*Gateway, error) {
	cfg.fill()
	cfg.Relay.Shards = shardsOf(cfg.Relay.Shards, cmp.Or(cfg.Capacity.MaxMemory, heldMemory))
	own := newShares(&cfg)
	g := &Gateway{cfg: cfg, bodies: bodybudget.New(own.bodies), internalConn: newInternalConn()}
	g.SetDrain(cfg.Drain)
	cfg.Relay.Limits.Network = client.Networks(cfg.Clients.Addr, cfg.Clients.Exempt)
	cfg.Relay.Limits.MorePorts = len(cfg.Clients.Listeners)
	g.ports = newListeners(cfg.Clients.Listeners)
	queue, err := fairqueue.New(cmp.Or(cfg.Capacity.MaxWaiting, waitingRequests))
	if err != nil {
		return nil, err
	}
	g.guard = newGuard(&cfg, g.internalConn)
	h := newHandler(&cfg, own, queue, localgrpc.NewBytesServer(g.guard.Serve, maxMessage))
	g.handler = h
	g.registerServices()
	inside, err := g.newDoors(queue)
	if err == nil {
		g.operators, err = g.newOperators()
	}
	if err != nil {
		g.Close()
		return nil, err
	}
	h.configure(&cfg.Relay, cfg.Clients.Addr)
	if cfg.Capacity.Overload != nil {
		cfg.Capacity.Overload.SetUse(h.use)
	}
	cfg.Relay.Age.Leaving = g.leaving
	cfg.Relay.Web = g.web.Headers
	g.relay = relay.New(cfg.Relay, h, g.doors)
	queue.OnSparse(g.relay.Hurry)
	h.relay, g.internalConn.Relay, inside.Relay = g.relay, g.relay, g.relay
	h.bandwidth.Attach(g.relay)
	g.admin = g.newAdminRelay(&cfg.Relay)
	g.directory = newDirectory(g.relay, cfg.Routing.Router, cfg.Observe.Metrics, cfg.Routing.TLS, cfg.Routing.Local)
	if err = cfg.Observe.Metrics.Add(g, cfg.Routing.Router, cfg.Routing.Affinity); err != nil {
		g.Close()
		return nil, fmt.Errorf("metrics: %w", err)
	}
	return g, nil
}

// configure sets the callbacks of a relay.
func (h *handler) configure(r *relay.Config, from *clientaddr.Resolver) {
	r.Origin, r.OnConnect, r.Panicked = from.ConnAddr, client.New, recovery.Report
	r.Forwarding.OmitHeader = clientaddr.Reserved
	r.Memory.Client, r.Memory.Connection, r.Memory.Upstream = h.shares.account, h.shares.connection, h.shares.upstream
	r.Memory.MaxKept = keptOf(h.shares.memory.Limit(), int64(r.Shards))
	switch {
	case !h.callers.Needed() || r.Limits.ReservedConns < 0:
		r.Limits.ReservedConns = 0
	case r.Limits.ReservedConns == 0:
		r.Limits.ReservedConns = cmp.Or(r.Limits.MaxConns, relay.DefaultMaxConns) / reservedPart
	}
	r.Responses = relay.Responses{
		Closed:      status.Relayed(filter.ShuttingDown, call.NotSent),
		OutOfMemory: status.Relayed(filter.Overloaded, call.NotSent),
		Pages: accept.Pages{
			HeadersTooLarge: relay.Page{Type: problem.ContentType, Body: problem.HeaderTooLarge()},
			TLSRequired:     relay.Page{Type: problem.ContentType, Body: problem.TLSRequired()},
			TooManyRequests: relay.Page{Type: problem.ContentType,
				Body: problem.TooMuch(filter.OverAddressShare.Reason, filter.OverAddressShare.Message)},
		},
	}
}

// Swap replaces the routing table with next, which must have been built from Routing.Router's current one. secure
// replaces Routing.TLS. Calls in flight finish, also at removed backends; no other connection is affected. Swap must
// not be called concurrently.
func (g *Gateway) Swap(next *router.Table, secure TLSOf) { g.directory.swap(next, secure) }

// Check verifies the connections to a backend that does not answer probes. Connections that do not answer a PING are
// closed with their calls. Check may be called often.
func (g *Gateway) Check(capability, addr string) { g.directory.check(capability, addr) }

// SetTLS changes the TLS settings of the public port for new handshakes. The Gateway must have been created with
// Config.Relay.TLS.
func (g *Gateway) SetTLS(t *tls.Config) { g.relay.SetTLS(t) }

// Sessions returns the memory pool of sessions at backends. Its owners are UIDs of tenants.
func (g *Gateway) Sessions() *fairshare.Pool { return g.handler.shares.sessions }

// Single sets the limits of a gateway without tenants, also for calls in flight; nil means none.
func (g *Gateway) Single(s *tenant.Settings) { g.handler.bandwidth.UpdateSingle(s) }

// WatchRates applies changes of tenants' bytes per second to open streams until ctx ends.
func (g *Gateway) WatchRates(ctx context.Context, tenants tenant.Tenants) {
	g.handler.bandwidth.WatchRates(ctx, tenants)
}

// SetDrain changes the drain settings.
func (g *Gateway) SetDrain(d Drain) { g.drainConfig.Store(&d) }

// registerServices registers the gateway's own gRPC services: health, reflection, and Doors.Services. Reflection also
// describes the dialects.
func (g *Gateway) registerServices() {
	server := g.handler.services
	g.health = health.NewServer()
	healthpb.RegisterHealthServer(server, g.health)
	if g.cfg.Doors.Services != nil {
		g.cfg.Doors.Services(server)
	}
	reflection.Register(reflected{server, g.handler.translator})
}

// reflected combines the services of two servers for reflection.
type reflected struct {
	*localgrpc.Server
	other *localgrpc.Server
}

// GetServiceInfo implements reflection.ServiceInfoProvider.
func (r reflected) GetServiceInfo() map[string]grpc.ServiceInfo {
	all := r.Server.GetServiceInfo()
	maps.Copy(all, r.other.GetServiceInfo())
	return all
}

// Run serves clients on public and operators on admin until ctx ends, then drains as Config.Drain says. Run closes all
// listeners. When Run returns, all goroutines and connections of the Gateway have ended.
func (g *Gateway) Run(ctx context.Context, public, admin net.Listener) error {
	running := 2 + len(g.ports)
	ended := make(chan error, running)
	go func() {
		ended <- attempted("serve operators", recovery.Do("serve", func() error { return g.admin.Serve(admin) }))
	}()
	g.serve(public, ended)
	moving, stopMoving := context.WithCancel(ctx)
	var mover sync.WaitGroup
	mover.Go(func() { g.moveClients(moving) })
	defer mover.Wait()
	defer stopMoving()
	var err error
	select {
	case <-ctx.Done():
		g.drain()
	case err = <-ended:
		running--
	}
	g.Close()
	for ; running > 0; running-- {
		err = errors.Join(err, <-ended)
	}
	return err
}

// Close ends the Gateway without a drain. Run calls it; other callers need it only for a Gateway that never runs.
func (g *Gateway) Close() {
	g.mcp.Close()
	if g.relay != nil {
		g.relay.Close()
	}
	g.handler.fairQueue.Close()
	g.handler.callers.Close()
	g.handler.assertions.Close()
	g.handler.reader.Close()
	g.handler.authorize.Close()
	g.guard.Close()
	if g.admin != nil {
		g.admin.Close()
	}
}

// attempted wraps an error with what was attempted. It returns nil if the server was closed.
func attempted(what string, err error) error {
	if err == nil || errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return fmt.Errorf("%s: %w", what, err)
}

// drain stops accepting calls and waits for those in flight.
func (g *Gateway) drain() {
	g.draining.Store(true)
	g.health.Shutdown()
	how := g.drainConfig.Load()
	g.cfg.Log.Info("draining", "delay", how.Delay.String(), "timeout", how.Timeout.String())
	<-time.After(how.Delay) // load balancers need this time to notice
	ctx, cancel := context.WithTimeout(context.Background(), how.Timeout)
	defer cancel()
	g.handler.authorize.Leave() // waits for people may outlast the drain
	g.mcp.Leave()
	if g.cfg.Leaving != nil {
		g.cfg.Leaving()
	}
	shut, stop := context.WithCancel(ctx)
	var waitLog sync.WaitGroup
	waitLog.Go(func() { g.logWaiting(shut) })
	if err := g.relay.Shutdown(ctx); err != nil {
		g.cfg.Log.Warn("calls were cut off", "after", how.Timeout)
	}
	stop()
	waitLog.Wait()
}
