package rules

import (
	"context"

	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/lib/nearest"
	"github.com/capgate/capgate/policy"
)

// comparedRules is the number of rules that are searched for a suggestion.
const comparedRules = 1000

// noRule returns the error for a rule that does not exist, with a suggestion.
func (s *server) noRule(ctx context.Context, set Rules, r *policy.Rule, candidate bool) error {
	rules, _, err := set.List(ctx, r.Tenant, "", comparedRules)
	if err != nil {
		return err
	}
	if len(rules) == 0 && r.Tenant != "" {
		if err := s.Tenants.Check(ctx, r.Tenant); err != nil {
			return err
		}
	}
	owner, kind := "all tenants", "rules"
	if r.Tenant != "" {
		owner = "the tenant " + r.Tenant
	}
	if candidate {
		kind = "candidate rules"
	}
	text := "there is no rule for " + aboutOf(&r.Name)
	if len(rules) == 0 {
		text += "; there are no " + kind + " of " + owner
	} else {
		text += nearRules(&r.Name, rules) + "; the " + kind + " of " + owner + " are about: "
		all := make([]string, len(rules))
		for i := range rules {
			all[i] = aboutOf(&rules[i].Name)
		}
		text += nearest.List(all, shownNames)
	}
	return &call.Refusal{Kind: call.NotFound, Reason: "POLICY_UNKNOWN", Message: text}
}

// nearRules suggests one of the rules: one about the same tool, or one with a similar name.
func nearRules(n *policy.Name, rules []policy.Rule) string {
	all := make([]string, len(rules))
	for i := range rules {
		of := &rules[i].Name
		if of.Capability == n.Capability && of.Tool == n.Tool {
			return `; did you mean "` + aboutOf(of) + `"?`
		}
		all[i] = aboutOf(of)
	}
	return nearest.Hint(aboutOf(n), all)
}

// aboutOf describes the calls of a rule.
func aboutOf(n *policy.Name) string {
	text := n.Tool + " of " + n.Capability
	if n.User != "" {
		text += " by user " + n.User
	}
	if n.Agent != "" {
		text += " by agent " + n.Agent
	}
	return text
}
