package gatewaytest

import (
	"cmp"
	"time"

	"github.com/capgate/capgate/health"
	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/tenant"
	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/policy"
	"github.com/capgate/capgate/policy/catalog"
	"github.com/capgate/capgate/router"
)

// fleets returns the fleets to route and probe.
func (o *Options) fleets(limits *router.Limits) (routes router.Config, probes []health.Fleet) {
	routes = router.Config{Domains: o.Domains, Limits: limits}
	for _, f := range o.Fleets {
		backends := router.Addrs(f.Backends...)
		for i := range backends {
			backends[i].Session, backends[i].Tenant = f.Reserved[backends[i].Addr], cmp.Or(f.Tenant, tenant.Default)
		}
		routes.Fleets = append(routes.Fleets, router.FleetConfig{
			Capability: f.Capability, Services: f.Services, Methods: f.Methods, Backends: backends,
			Dialect: f.Dialect, Deadlines: f.Deadlines,
			Ejection: f.Ejection, Retries: f.Retries, Idempotent: f.Idempotent,
			Idempotency:  router.Idempotency{GRPC: f.Keyed},
			ApprovalWait: f.ApprovalWait, EventSource: f.Sources, Protocol: f.Protocol, Limit: f.Limit,
			SlowStart: f.SlowStart, Affinity: f.Affinity, WaitForReady: f.Health.WaitForReady, Assertion: f.Assertion,
		})
		if f.Unprobed {
			continue
		}
		if f.Health.Interval == 0 {
			f.Health.Interval = time.Hour
		}
		if f.Health.Timeout == 0 {
			f.Health.Timeout = check.Patience / 2
		}
		probes = append(probes, health.Fleet{Capability: f.Capability, Backends: f.Backends, Dialect: f.Dialect,
			Services: health.ServicesOf(f.Services, f.Methods), Config: f.Health, Asks: f.Asks})
	}
	return routes, probes
}

// decider returns a Decider that allows calls without a rule.
func (o *Options) decider() (*policy.Decider, error) {
	if o.Policy.Source == nil {
		table := map[string]catalog.Declaration{}
		for _, f := range o.Fleets {
			table[f.Capability] = catalog.Declaration{Policy: call.Allow}
		}
		tools := catalog.New(catalog.Options{})
		tools.Replace(table)
		o.Policy.Source = tools
	}
	if o.Policy.Entries == 0 {
		o.Policy.Entries = 1000 // the default takes 20 MB in each gateway
	}
	return policy.New(o.Policy)
}
