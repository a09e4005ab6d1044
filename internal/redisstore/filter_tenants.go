package redisstore

import (
	"context"

	"github.com/redis/go-redis/v9"
)

// FilterTenants returns the given tenants that have approvals, in their order.
func (a *ApprovalStore) FilterTenants(ctx context.Context, tenants []string) ([]string, error) {
	return a.having(ctx, tenants, func(of string) string { return a.key("{TENANT:approvals}:index", of) })
}

// TenantOf returns the tenant, among the given ones, that has an approval, or "".
func (a *ApprovalStore) TenantOf(ctx context.Context, id string, tenants []string) (string, error) {
	all, err := a.having(ctx, tenants, func(of string) string { return a.recordKey(of, id) })
	if err != nil || len(all) == 0 {
		return "", err
	}
	return all[0], nil
}

// FilterTenants returns the given tenants that have rules, in their order.
func (p *Policies) FilterTenants(ctx context.Context, tenants []string) ([]string, error) {
	return p.having(ctx, tenants, func(of string) string { return p.ruleKey("{TENANT:policy}:names", of) })
}

// having returns the given tenants for which a key exists.
func (c client) having(
	ctx context.Context, tenants []string, keyOf func(tenant string) string,
) (those []string, err error) {
	if len(tenants) == 0 {
		return nil, nil
	}
	found := make([]*redis.IntCmd, len(tenants))
	err = c.do(ctx, func(ctx context.Context, r redis.Cmdable) error {
		_, err := r.Pipelined(ctx, func(pipe redis.Pipeliner) error {
			for i, of := range tenants {
				found[i] = pipe.Exists(ctx, keyOf(of))
			}
			return nil
		})
		return err
	})
	if err != nil {
		return nil, err
	}
	for i, of := range tenants {
		if found[i].Val() > 0 {
			those = append(those, of)
		}
	}
	return those, nil
}
