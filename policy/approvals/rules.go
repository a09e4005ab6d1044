package approvals

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/capgate/capgate/policy"
)

// MaxAnswers bounds the number of people that must approve one call.
const MaxAnswers = 10

// maxSessionTTL bounds the validity of an answer for a session, maxValidity that of an answer for always.
const (
	maxSessionTTL = 720 * time.Hour
	maxValidity   = 10 * 365 * 24 * time.Hour
)

// AnswerRule selects the approvers of matching calls. The first rule that matches a call applies; without one, the zero
// value applies.
type AnswerRule struct {
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
	Self *bool `yaml:"self"`
	// Answers that need a comment.
	Reason Reason `yaml:"reason" enum:"none,deny,always" default:"none"`
	// Maximum validity of an answer for session or always. Default no limit.
	MaxValidity time.Duration `yaml:"max_validity" min:"1s" max:"87600h"`
	// When further groups may answer. Default never.
	Escalate Escalation `yaml:"escalate"`
}

// Escalation permits members of further groups to answer after a time. The zero value permits none.
type Escalation struct {
	// Time after the call.
	After time.Duration `yaml:"after" min:"1s" max:"24h" required:""`
	// Groups of the people that may answer from then on.
	Groups []string `yaml:"groups" kind:"group" required:"" min:"1" max:"32"`
}

// Reason says which answers need a comment.
type Reason uint8

// The answers that need a comment.
const (
	ReasonNever Reason = iota
	ReasonDeny
	ReasonAlways
)

// matches reports whether the rule applies to a call.
func (r *AnswerRule) matches(tenant, capability, tool string) bool {
	is := func(pattern, name string) bool { return pattern == policy.Any || pattern == name }
	return is(r.Tenant, tenant) && is(r.Capability, capability) && is(r.Tool, tool)
}

// SetAnswerRules replaces the rules. Answers from now on are judged by them.
func (k *Service) SetAnswerRules(rules []AnswerRule) { k.answerRules.Store(&rules) }

// AnswerRule returns the rule that applies to the approvals of a call.
func (k *Service) AnswerRule(tenant, capability, tool string) AnswerRule {
	if rules := k.answerRules.Load(); rules != nil {
		for i := range *rules {
			if r := &(*rules)[i]; r.matches(tenant, capability, tool) {
				return *r
			}
		}
	}
	return AnswerRule{}
}

// Terms are the conditions of an answer to one approval, by the rules in force.
type Terms struct {
	Groups         []string // groups that may answer now; empty: all approvers
	Answers        int      // people that must approve
	Self           bool     // the user of the call may approve it
	Reason         Reason
	MaxValidity    time.Duration // of an answer for session or always; 0: no limit
	Escalates      time.Time     // when EscalateGroups may answer, too; zero: never
	EscalateGroups []string
}

// terms returns the conditions of an answer now.
func (k *Service) terms(a *Approval) *Terms {
	r := k.AnswerRule(a.Tenant, a.Capability, a.Tool)
	t := &Terms{Groups: r.Groups, Answers: max(r.Answers, 1), Reason: r.Reason, MaxValidity: r.MaxValidity,
		Self: byBackend(a.Level)} // an engine asks its own user
	if r.Self != nil {
		t.Self = *r.Self
	}
	if r.Escalate.After <= 0 {
		return t
	}
	t.Escalates, t.EscalateGroups = a.Created.Add(r.Escalate.After), r.Escalate.Groups
	if len(t.Groups) > 0 && !k.opts.Now().Before(t.Escalates) {
		t.Groups = append(slices.Clone(t.Groups), r.Escalate.Groups...)
		slices.Sort(t.Groups)
		t.Groups = slices.Compact(t.Groups)
	}
	return t
}

// String describes the rule for people that may not answer an approval.
func (r *AnswerRule) String() string {
	text := "answered by any approver"
	if len(r.Groups) > 0 {
		text = "answered by members of " + strings.Join(r.Groups, ", ")
	}
	if r.Escalate.After > 0 && len(r.Groups) > 0 {
		text += fmt.Sprintf(", after %v also of %s", r.Escalate.After, strings.Join(r.Escalate.Groups, ", "))
	}
	if r.Answers > 1 {
		text += fmt.Sprintf("; %d people have to approve", r.Answers)
	}
	switch {
	case r.Self == nil || !*r.Self:
		text += "; not by the user of the call"
	default:
		text += "; also by the user of the call"
	}
	switch r.Reason {
	case ReasonDeny:
		text += "; a denial needs a comment"
	case ReasonAlways:
		text += "; each answer needs a comment"
	case ReasonNever:
	}
	if r.MaxValidity > 0 {
		text += fmt.Sprintf("; remembered for %v at most", r.MaxValidity)
	}
	return text
}
