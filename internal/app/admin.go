package app

import (
	"github.com/capgate/capgate/gateway/admin"
	adminfleets "github.com/capgate/capgate/gateway/admin/fleets"
	"github.com/capgate/capgate/gateway/admin/guard"
	"github.com/capgate/capgate/internal/drains"
	capgatepb "github.com/capgate/capgate/proto/capgate/v1"
	"github.com/capgate/capgate/router"
)

// drainedFleets applies drains to the router.
type drainedFleets struct{ routing *router.Router }

func (f drainedFleets) SetDrains(all []drains.Drain) {
	next := make([]router.Drain, len(all))
	for i, d := range all {
		next[i] = router.Drain{Capability: d.Capability, Addr: d.Addr, Since: d.Since, By: d.By}
	}
	f.routing.SetDrains(next)
}

func (f drainedFleets) Calls(k drains.Key) (int64, bool) {
	fleet := f.routing.Table().Fleet(k.Capability)
	if fleet == nil {
		return 0, false
	}
	b := fleet.Backend(k.Addr)
	if b == nil {
		return 0, false
	}
	return b.InFlight(), true
}

// answers says which replica answers a request to the admin API.
func (p *App) answers() *capgatepb.RespondingReplica {
	return &capgatepb.RespondingReplica{Replica: p.replica, Redis: redisState(p.store)()}
}

// drainsFeature takes drained backends out of their fleets, and shows the fleets in the admin API.
func drainsFeature() feature {
	var kept *drains.Manager
	return feature{
		build: func(p *App) error {
			kept = drains.New(p.replica, p.store.Drains(), drainedFleets{p.fleets.routing}, p.log)
			p.parts.services = append(p.parts.services, adminfleets.New(adminfleets.Config{Router: p.fleets.routing,
				Drains: kept, Logins: p.fleets.logins, Source: p.fleets.sourceOf, ProbedBy: p.probedBy,
				Gateway: p.answers, Audit: p.audit}))
			return nil
		},
		run: func(_ *App, w *work) {
			kept.Read(w.start) // no call goes to a backend that is drained
			w.watch(kept.Run)
		},
	}
}

// AdminServices returns the services of the admin API, below /v1/ and over gRPC.
func (p *App) AdminServices() (mount func(*guard.Mux), err error) {
	services, err := admin.NewServices(p.parts.services...)
	return func(mux *guard.Mux) {
		for _, mount := range p.parts.mounts {
			mount(mux)
		}
		services.Mount(mux)
		admin.MountDocuments(mux)
	}, err
}

// probedBy names the replica that probes a backend.
func (p *App) probedBy(capability, addr string) string {
	if s := p.fleets.prober.Snapshot(capability); s != nil {
		for i := range s.Backends {
			if s.Backends[i].Addr == addr {
				return s.Backends[i].By
			}
		}
	}
	return ""
}
