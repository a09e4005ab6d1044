package app

import (
	"github.com/capgate/capgate/internal/config"
	"github.com/capgate/capgate/policy/approvals"
)

// answerRulesOf returns the rules that select the approvers of calls.
func answerRulesOf(c *config.Config) []approvals.AnswerRule {
	reasons := map[string]approvals.Reason{"deny": approvals.ReasonDeny, "always": approvals.ReasonAlways}
	rules := make([]approvals.AnswerRule, len(c.Approvals.Rules))
	for i := range rules {
		r := &c.Approvals.Rules[i]
		rules[i] = approvals.AnswerRule{Tenant: r.Tenant, Capability: r.Capability, Tool: r.Tool, Groups: r.Groups,
			Answers: r.Answers, Reason: reasons[r.Reason], MaxValidity: r.MaxValidity,
			EscalateAfter: r.Escalate.After, EscalateGroups: r.Escalate.Groups}
		if r.SelfGiven {
			rules[i].Self = &r.Self
		}
	}
	return rules
}
