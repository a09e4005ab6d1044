package rules

import (
	"cmp"
	"slices"

	"github.com/capgate/capgate/internal/recent"
	"github.com/capgate/capgate/policy"
)

// Samples counts the recent calls that rules decided, of one tenant; empty means all tenants.
func Samples(calls []recent.Call, tenant string) (all []Sample) {
	counts := map[policy.Key]int{}
	for i := range calls {
		c := &calls[i]
		if c.Verdict != "" && c.Tool != "" && (tenant == "" || tenant == c.Tenant) {
			counts[policy.Key{Subject: policy.Subject{Tenant: c.Tenant, User: c.User, Agent: c.Agent},
				Capability: c.Capability, Tool: c.Tool}]++
		}
	}
	for key, n := range counts {
		all = append(all, Sample{Key: key, Calls: n})
	}
	slices.SortFunc(all, func(a, b Sample) int {
		return cmp.Or(cmp.Compare(b.Calls, a.Calls), cmp.Compare(a.Tenant, b.Tenant), cmp.Compare(a.User, b.User),
			cmp.Compare(a.Agent, b.Agent), cmp.Compare(a.Capability, b.Capability), cmp.Compare(a.Tool, b.Tool))
	})
	return all
}
