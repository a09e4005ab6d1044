package app

import (
	"context"

	"github.com/capgate/capgate/gateway"
	"github.com/capgate/capgate/gateway/admin"
	"github.com/capgate/capgate/gateway/admin/guard"
	"github.com/capgate/capgate/gateway/admin/registration"
	"github.com/capgate/capgate/gateway/admin/rules"
	"github.com/capgate/capgate/gateway/admin/tools"
	"github.com/capgate/capgate/gateway/admin/webhooks"
	"github.com/capgate/capgate/internal/drains"
	"github.com/capgate/capgate/router"
)

// drainedFleets lets the keeper of drains put them in force.
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

// AdminServices returns the services of the admin API, below /v1/ and over gRPC.
func (p *App) AdminServices() (mount func(*guard.Mux), err error) {
	redis := redisState(p.store)
	answers := func() admin.Gateway { return admin.Gateway{Replica: p.replica, Redis: redis()} }
	fleets := admin.New(admin.Config{
		Router: p.routing, Drains: p.drains,
		Source:   p.sourceOf,
		ProbedBy: p.probedBy,
		Gateway:  answers,
		Audit:    p.audit,
	})
	cfg := rules.Config{Decider: p.decider, Tenants: p.auth.roster, Catalog: p.tools, Status: gateway.GRPCStatus,
		Audit: p.audit, Approvers: func(tenant, capability, tool string) string {
			r := p.approvals.AnswerRule(tenant, capability, tool)
			return r.String()
		}}
	cfg.Recent = func(ctx context.Context, tenant string) []rules.Sample {
		found, _ := p.recent.Calls(ctx)
		return rules.Samples(found, tenant)
	}
	if p.rules != nil {
		cfg.Rules, cfg.Candidates, cfg.FilterTenants = p.rules, p.rules.Candidates(), p.filterRuleTenants
		cfg.RuleTenants, cfg.AcceptLoss = p.rules.RuleTenants, p.rules.AcceptLoss
	}
	services, err := admin.NewServices(gateway.GRPCStatus, append(p.recentServices(),
		registration.New(p.registry, gateway.GRPCStatus, p.audit), rules.New(cfg),
		tools.New(p.tools, p.discovery, p.store.Versions(), gateway.GRPCStatus, p.audit), p.approvalsAPI.Operators(),
		p.tenantsAPI.Operators(), webhooks.New(lettersNow{p}, p.destinations, p.audit))...)
	return func(mux *guard.Mux) {
		fleets.Mount(mux)
		p.persons.admin.Mount(mux)
		services.Mount(mux)
		admin.MountDocuments(mux)
		admin.MountLimits(mux, p.quotas, p.auth.roster, answers)
	}, err
}

// filterRuleTenants are those of some tenants that have rules.
func (p *App) filterRuleTenants(ctx context.Context, tenants []string, candidate bool) ([]string, error) {
	if candidate {
		return p.rules.Candidates().FilterTenants(ctx, tenants)
	}
	return p.rules.FilterTenants(ctx, tenants)
}

// sourceOf returns the source of a backend: dns, registration or config.
func (p *App) sourceOf(capability, addr string) string {
	for _, m := range membersOf(p.registry.Members(), capability) {
		if m.Addr == addr {
			return m.Source.String()
		}
	}
	return "config"
}

// probedBy names the replica that probes a backend.
func (p *App) probedBy(capability, addr string) string {
	if s := p.prober.Snapshot(capability); s != nil {
		for i := range s.Backends {
			if s.Backends[i].Addr == addr {
				return s.Backends[i].By
			}
		}
	}
	return ""
}
