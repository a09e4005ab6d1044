package gateway

import (
	"context"
	"time"

	healthpb "google.golang.org/grpc/health/grpc_health_v1"
)

// Readiness returns the readiness of the gateway and of its fleets.
func (g *Gateway) Readiness() Readiness {
	r := Readiness{Ready: true, Draining: g.draining.Load()}
	if r.Draining {
		r.Waiting = g.waiting()
	}
	if g.cfg.Ready.Redis != nil {
		r.Redis = g.cfg.Ready.Redis()
	}
	if g.cfg.Ready.Warnings != nil {
		r.Warnings = g.cfg.Ready.Warnings()
	}
	if g.cfg.Ready.Unread != nil {
		r.Unread = g.cfg.Ready.Unread()
	}
	if g.cfg.Observe.Audit != nil && g.cfg.Observe.Audit.Stats().Failing {
		r.Audit = "failing"
	}
	if g.cfg.Ready.CutOff != nil {
		r.CutOff = g.cfg.Ready.CutOff()
	}
	r.Ready = !g.refusing(r.Unread, r.CutOff)
	for _, f := range g.cfg.Routing.Router.Table().Fleets() {
		fr := FleetReadiness{Capability: f.Capability, Backends: len(f.Backends), Usable: f.Stats().Usable}
		r.Fleets = append(r.Fleets, fr)
	}
	if g.cfg.Ready.Loads != nil {
		loads := g.cfg.Ready.Loads()
		r.Config = &loads
	}
	return r
}

// refusing reports whether the gateway cannot serve calls. Otherwise a replica that rejects calls faster than others
// serve them would attract the most.
func (g *Gateway) refusing(unread []string, cutOff bool) bool {
	return len(unread) > 0 || cutOff || g.cfg.Observe.Audit != nil && g.cfg.Observe.Audit.Blocked()
}

// leaving reports whether clients should move to another replica.
func (g *Gateway) leaving() bool {
	if g.draining.Load() {
		return true
	}
	var unread []string
	if g.cfg.Ready.Unread != nil {
		unread = g.cfg.Ready.Unread()
	}
	return g.refusing(unread, g.cfg.Ready.CutOff != nil && g.cfg.Ready.CutOff())
}

// serving sets the state of grpc.health.v1 to that of /readyz. It has no effect on a draining gateway.
func (g *Gateway) serving(ready bool) {
	state := healthpb.HealthCheckResponse_NOT_SERVING
	if ready {
		state = healthpb.HealthCheckResponse_SERVING
	}
	g.health.SetServingStatus("", state)
}

// lookAtReadiness is the interval of moveClients.
const lookAtReadiness = 500 * time.Millisecond

// moveClients closes HTTP/2 connections gracefully while the gateway cannot serve calls, until ctx ends. A client may
// return to this replica until its load balancer sees that it is not ready, which takes Drain.Delay. Younger
// connections therefore stay: otherwise they would be replaced for each call. During a drain, the relay moves clients.
func (g *Gateway) moveClients(ctx context.Context) {
	ticker := time.NewTicker(lookAtReadiness)
	defer ticker.Stop()
	for since := time.Now(); ; {
		select {
		case now := <-ticker.C:
			leaving := g.leaving()
			g.serving(!leaving)
			if delay := g.drainConfig.Load().Delay; g.draining.Load() || !leaving {
				since = now
			} else if now.Sub(since) >= delay {
				g.relay.Move(delay)
			}
		case <-ctx.Done():
			return
		}
	}
}
