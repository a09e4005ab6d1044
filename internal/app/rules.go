package app

import (
	"context"
	"time"

	"github.com/capgate/capgate/gateway/admin"
	"github.com/capgate/capgate/gateway/admin/rules"
	"github.com/capgate/capgate/gateway/builtin/listing"
	mcptools "github.com/capgate/capgate/gateway/frontdoor/mcp/tools"
	"github.com/capgate/capgate/internal/redisstore"
	"github.com/capgate/capgate/policy"
)

// decisions decides about calls.
type decisions struct {
	decider *policy.Decider
	store   *redisstore.Policies // nil: no stored rules
}

// rulesFeature decides about calls: by rules, where the file has a policies block, by manifests, and by fleets. It
// lists the tools that callers may use.
func rulesFeature() feature {
	return feature{
		build: buildRules,
		run: func(p *App, w *work) {
			if p.rules.store == nil {
				return
			}
			w.loop("rules", func(ctx context.Context) { p.rules.decider.Watch(ctx, p.rules.store) })
			w.loop("recent tools", func(ctx context.Context) { p.rules.decider.PersistRecent(ctx, p.rules.store) })
			p.warm(w.start)
		},
	}
}

func buildRules(p *App) (err error) {
	cfg, cache := p.started.Config.Policies, p.started.Config.Cache
	o := policy.Options{Source: p.tools.catalog, Entries: cache.Entries, TTL: cache.TTL, MaxStale: cache.MaxStale,
		Changed: func(c policy.Change) { p.tools.changed.Send(viewChangeOf(c)) }}
	o.Lost = func(lost bool) {
		if lost {
			p.log.Error("redis has lost the rules: calls whose decision is not in memory are rejected until the " +
				"rules are restored, or \"capgate policy accept-loss\" accepts the loss")
			return
		}
		p.log.Info("rules restored, or their loss accepted")
	}
	if cfg.Enabled {
		p.rules.store = p.store.Policies()
		o.Store = p.rules.store
		if cfg.Shadow {
			o.Shadow = p.rules.store.Candidates()
		}
	}
	if p.rules.decider, err = policy.New(o); err != nil {
		return err
	}
	if cfg.Enabled {
		if err = p.metrics.Add(p.rules.decider); err != nil {
			return err
		}
	}
	p.parts.Policy.Decider = p.rules.decider
	p.parts.services = append(p.parts.services, p.rulesService())
	p.tools.listing = listing.New(p.tools.catalog, p.rules.decider)
	p.parts.Routing.Discovery.Tools = p.tools.listing.Discovered
	return nil
}

// viewChangeOf returns the callers and tools that a changed rule affects.
func viewChangeOf(c policy.Change) (v mcptools.ViewChange) {
	if c.Everything {
		return v
	}
	if v.Tenant = c.Tenant; c.Capability != policy.Any {
		v.Capability = c.Capability
	}
	return v
}

// warming is the maximum time for which a start waits for the knowledge of other replicas.
const warming = 2 * time.Second

// warm loads decisions that other replicas made recently, so that the callers' first calls here are decided from
// memory.
func (p *App) warm(ctx context.Context) {
	if p.store.Unavailable() {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, warming)
	defer cancel()
	began := time.Now()
	n, err := p.rules.decider.Warm(ctx, p.rules.store)
	if err != nil {
		p.log.Warn("policy cache not fully warmed", "decisions", n, "error", err)
		return
	}
	p.log.Info("policy cache warmed", "decisions", n, "took", time.Since(began).String())
}

// rulesService returns the service of rules of the admin API.
func (p *App) rulesService() admin.Service {
	cfg := rules.Config{Decider: p.rules.decider, Tenants: p.auth.roster, Catalog: p.tools.catalog,
		Audit: p.audit, Approvers: func(tenant, capability, tool string) string {
			r := p.approvals.service.AnswerRule(tenant, capability, tool)
			return r.String()
		}}
	cfg.Recent = func(ctx context.Context, tenant string) []rules.Sample {
		found, _ := p.recent.Calls(ctx)
		return rules.Samples(found, tenant)
	}
	if p.rules.store != nil {
		cfg.Rules, cfg.Candidates, cfg.FilterTenants = p.rules.store, p.rules.store.Candidates(), p.filterRuleTenants
		cfg.RuleTenants, cfg.AcceptLoss = p.rules.store.RuleTenants, p.rules.store.AcceptLoss
	}
	return rules.New(cfg)
}

// filterRuleTenants returns the tenants that have rules, out of some.
func (p *App) filterRuleTenants(ctx context.Context, tenants []string, candidate bool) ([]string, error) {
	if candidate {
		return p.rules.store.Candidates().FilterTenants(ctx, tenants)
	}
	return p.rules.store.FilterTenants(ctx, tenants)
}
