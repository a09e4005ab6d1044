package app

import (
	"context"
	"time"

	"github.com/capgate/capgate/gateway/frontdoor/mcp/tools"
	"github.com/capgate/capgate/internal/config"
	"github.com/capgate/capgate/internal/telemetry"
	"github.com/capgate/capgate/policy"
)

// newDecider makes what decides on calls: by rules, where the file has a policies block,
// by manifests, and by fleets.
func (p *App) newDecider(cfg config.Policies, metrics *telemetry.Metrics) (err error) {
	o := policy.Options{Source: p.tools, Entries: cfg.Cache, TTL: cfg.TTL, MaxStale: cfg.MaxStale,
		Changed: func(c policy.Change) { p.toolsChanged.Send(viewChangeOf(c)) }}
	o.Lost = func(lost bool) {
		if lost {
			p.log.Error("redis has lost the rules: calls whose decision is not in memory are rejected until the rules are " +
				"restored, or \"capgate policy accept-loss\" accepts the loss")
			return
		}
		p.log.Info("the rules are back, or their loss was accepted")
	}
	if cfg.Enabled {
		p.rules = p.store.Policies()
		o.Store = p.rules
		if cfg.Shadow {
			o.Shadow = p.rules.Candidates()
		}
	}
	if p.decider, err = policy.New(o); err != nil {
		return err
	}
	if cfg.Enabled {
		return metrics.Add(p.decider)
	}
	return nil
}

// viewChangeOf returns whose tools a changed rule is about.
func viewChangeOf(c policy.Change) (v tools.ViewChange) {
	if c.Everything {
		return v
	}
	if v.Tenant = c.Tenant; c.Capability != policy.Any {
		v.Capability = c.Capability
	}
	return v
}

// followRules keeps decisions true to the rules until ctx ends.
func (p *App) followRules(ctx context.Context) {
	if p.rules != nil {
		p.decider.Watch(ctx, p.rules)
	}
}

// warming is how long a start waits at most for what other replicas know.
const warming = 2 * time.Second

// warm loads decisions that other replicas made recently, so that the callers' first calls here are decided from
// memory.
func (p *App) warm(ctx context.Context) {
	if p.rules == nil || p.store.Unavailable() {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, warming)
	defer cancel()
	began := time.Now()
	n, err := p.decider.Warm(ctx, p.rules)
	if err != nil {
		p.log.Warn("policy cache not fully warmed", "decisions", n, "error", err)
		return
	}
	p.log.Info("policy cache warmed", "decisions", n, "took", time.Since(began).String())
}

// keepRecent publishes this replica's recent decisions for starting replicas, until ctx ends.
func (p *App) keepRecent(ctx context.Context) {
	if p.rules != nil {
		p.decider.PersistRecent(ctx, p.rules)
	}
}
