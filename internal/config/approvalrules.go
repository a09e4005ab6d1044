package config

import (
	"github.com/capgate/capgate/internal/lib/strictyaml"
)

// checkApprovalRules rejects rules with an escalation that has no effect.
func (c *Config) checkApprovalRules(at strictyaml.At) {
	for i := range c.Approvals.Rules {
		r, at := &c.Approvals.Rules[i], at.Field("approvals").Field("rules").Item(i)
		switch {
		case r.Escalate.After == 0:
		case len(r.Groups) == 0:
			at.Fail("escalate", "needs groups: without them, all approvers may answer from the start")
		case r.Escalate.After >= c.Approvals.Options.TTL:
			at.Fail("escalate", "after %v is too late: approvals expire after %v (approvals.ttl)", r.Escalate.After,
				c.Approvals.Options.TTL)
		}
	}
}
