package redisstore

import (
	"context"

	"github.com/redis/go-redis/v9"

	"github.com/capgate/capgate/policy"
)

// deleteToolBatch is the number of rules that one script deletes.
const deleteToolBatch = 1000

func (p *Policies) tenantsKey() string { return p.key("{policies}:tenants") }

// RuleTenants returns the tenants that have, or had, rules or candidates, in no order. "" has the global ones.
func (p *Policies) RuleTenants(ctx context.Context) ([]string, error) {
	return fetch(ctx, p.client, redis.Cmdable.SMembers, p.tenantsKey())
}

// addTenant records that a tenant has rules, before the first one is written.
func (p *Policies) addTenant(ctx context.Context, tenant string) error {
	return p.do(ctx, func(ctx context.Context, r redis.Cmdable) error {
		return r.SAdd(ctx, p.tenantsKey(), tenant).Err()
	})
}

var deleteToolScript = newScript("policies_delete_tool")

// DeleteTool deletes every rule and candidate, of any tenant, user and agent, that names exactly this tool of this
// capability. After an error some may be left; then it must be called again.
func (p *Policies) DeleteTool(ctx context.Context, capability, tool string) error {
	n := policy.Name{Capability: capability, Tool: tool}
	tenants, err := p.RuleTenants(ctx)
	if err != nil {
		return err
	}
	for _, tenant := range tenants {
		for _, set := range []*Policies{p, p.Candidates()} {
			for left := 1; left > 0; {
				if left, err = p.run(ctx, deleteToolScript, set.ruleKeys(tenant, n),
					deleteToolBatch).Int(); err != nil {
					return err
				}
			}
		}
	}
	// The event goes to all tenants, even without a deletion: an earlier call may have failed in between.
	return p.publishChange(ctx, policy.Change{Name: n})
}

var deleteEndedScript = newScript("policies_delete_ended")

// deleteEnded deletes a rule that has ended. The rule has no effect, so a failure does no harm.
func (p *Policies) deleteEnded(ctx context.Context, tenant string, n policy.Name, text string) {
	_ = p.run(ctx, deleteEndedScript, p.ruleKeys(tenant, n), ruleField(n), text).Err()
}
