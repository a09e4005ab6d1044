package main

import (
	"context"

	"github.com/capgate/capgate/internal/config"
	"github.com/capgate/capgate/internal/observe"
	"github.com/capgate/capgate/policy"
)

// newDecider makes what decides on calls: by rules, where the file has a policies block,
// by manifests, and by fleets.
func (p *process) newDecider(cfg config.Policies, metrics *observe.Metrics) (err error) {
	o := policy.Options{Source: p.tools, Entries: cfg.Cache, TTL: cfg.TTL, MaxStale: cfg.MaxStale}
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
	metrics.WatchPolicy(func() observe.Policy {
		s := p.decider.Stats()
		return observe.Policy{
			Misses: s.Misses, Failures: s.Failures, Entries: s.Entries, Age: s.Age, Lost: s.Lost, Rules: cfg.Enabled,
		}
	})
	return nil
}

// followRules keeps decisions true to the rules until ctx ends.
func (p *process) followRules(ctx context.Context) {
	if p.rules != nil {
		p.decider.Follow(ctx, p.rules)
	}
}
