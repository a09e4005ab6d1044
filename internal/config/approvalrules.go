package config

import (
	"time"

	"github.com/capgate/capgate/internal/lib/strictyaml"
)

// ApprovalRule selects the approvers of matching calls.
type ApprovalRule struct {
	// Tenant of the calls.
	Tenant string `yaml:"tenant" kind:"tenant or *" default:"'*'"`
	// Capability of the calls.
	Capability string `yaml:"capability" kind:"capability or *" default:"'*'"`
	// Tool of the calls.
	Tool string `yaml:"tool" max:"256" default:"'*'"`
	// Groups of the people that may answer, by issuers[].claims.groups. Default all approvers.
	Groups []string `yaml:"groups" kind:"group" max:"32"`
	// Number of different people that must approve; one denial denies.
	Answers int `yaml:"answers" min:"1" max:"10" default:"1"`
	// true: users may approve their own calls. Default false, except for questions of engines to their user.
	Self      bool `yaml:"self"`
	SelfGiven bool `yaml:"-"` // Self is there
	// Answers that need a comment.
	Reason string `yaml:"reason" enum:"none,deny,always" default:"none"`
	// Maximum validity of an answer for session or always. Default no limit.
	MaxValidity time.Duration `yaml:"max_validity" min:"1s" max:"87600h"`
	// When further groups may answer. Default never.
	Escalate Escalation `yaml:"escalate"`
}

// Check takes note of a field whose absence differs from its zero value.
func (r *ApprovalRule) Check(at strictyaml.At) { r.SelfGiven = at.Has("self") }

// Escalation lets further groups answer after a time.
type Escalation struct {
	// Time after the call.
	After time.Duration `yaml:"after" min:"1s" max:"24h" required:""`
	// Groups of the people that may answer from then on.
	Groups []string `yaml:"groups" kind:"group" required:"" min:"1" max:"32"`
}

// checkApprovalRules rejects rules with an escalation that has no effect.
func (c *Config) checkApprovalRules(at strictyaml.At) {
	for i := range c.Approvals.Rules {
		r, at := &c.Approvals.Rules[i], at.Field("approvals").Field("rules").Item(i)
		switch {
		case r.Escalate.After == 0:
		case len(r.Groups) == 0:
			at.Fail("escalate", "needs groups: without them, all approvers may answer from the start")
		case r.Escalate.After >= c.Approvals.TTL:
			at.Fail("escalate", "after %v is too late: approvals expire after %v (approvals.ttl)", r.Escalate.After,
				c.Approvals.TTL)
		}
	}
}
