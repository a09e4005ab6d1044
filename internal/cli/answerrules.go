package cli

import (
	"fmt"

	"github.com/capgate/capgate/internal/config"
	"github.com/capgate/capgate/policy/approvals"
)

// answerRulesOf returns the rules on who may answer approvals.
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

// answerRuleWarnings returns the rules of a configuration that nobody can satisfy, as far as the file says.
func answerRuleWarnings(c *config.Config) (all []string) {
	groups, people := false, len(c.Issuers) > 0
	for i := range c.Issuers {
		groups = groups || c.Issuers[i].Claims.Groups != ""
	}
	for i := range c.Approvals.Rules {
		r := &c.Approvals.Rules[i]
		at := fmt.Sprintf("approvals.rules[%d]", i)
		if len(r.Groups) > 0 && !groups {
			all = append(all, at+": nobody is in a group, because no issuer has claims.groups; nobody can answer")
		}
		if r.Answers > 1 && !people {
			all = append(all, fmt.Sprintf("%s: %d people have to approve, but there are no issuers; only API keys count, "+
				"each as one", at, r.Answers))
		}
		if r.Answers > 1 && c.Operators.Insecure {
			all = append(all, at+": operators.insecure: answers at the admin API do not count for several people")
		}
		for j := range i {
			if o := &c.Approvals.Rules[j]; covers(o.Tenant, r.Tenant) && covers(o.Capability, r.Capability) &&
				covers(o.Tool, r.Tool) {
				all = append(all, fmt.Sprintf("%s never applies: approvals.rules[%d] matches the same calls before it", at, j))
				break
			}
		}
	}
	return all
}

func covers(pattern, name string) bool { return pattern == "*" || pattern == name }
