package approvals_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/policy/approvals"
)

// person returns an approver who is authenticated by an issuer.
func person(user string, groups ...string) approvals.Approver {
	return approvals.Approver{User: user, Issuer: "corp", Groups: groups}
}

// ruled returns a Service with one rule for the answers to all calls.
func ruled(t *testing.T, o approvals.Options, rule approvals.AnswerRule) *approvals.Service {
	t.Helper()
	k := newKeeper(t, &memory{}, o)
	rule.Tenant, rule.Capability, rule.Tool = "*", "*", "*"
	k.SetAnswerRules([]approvals.AnswerRule{rule})
	return k
}

// TestWhoMayAnswer: the current rule checks the approver and the comment, for approvals and for denials.
func TestWhoMayAnswer(t *testing.T) {
	t.Parallel()
	own := true
	groups := approvals.AnswerRule{Groups: []string{"leads", "sec"}}
	unverified := approvals.Approver{User: "bob", Key: "ci", Unverified: true}
	for name, test := range map[string]struct {
		rule    approvals.AnswerRule
		level   string
		who     approvals.Approver
		deny    bool
		comment string
		reason  string
		says    string
	}{
		"a member":                  {rule: groups, who: person("bob", "ops", "sec")},
		"a member of another group": {rule: groups, who: person("bob", "ops"), reason: "APPROVER_GROUP"},
		"an outsider denies":        {rule: groups, who: person("bob", "ops"), deny: true, reason: "APPROVER_GROUP"},
		"a part of a group's name":  {rule: groups, who: person("bob", "se"), reason: "APPROVER_GROUP"},
		"an approver without a key": {rule: groups, reason: "APPROVER_GROUP", says: "is not authenticated"},
		"an API key": {rule: groups, who: approvals.Approver{Key: "ci"}, reason: "APPROVER_GROUP",
			says: "an API key"},
		"the user of the call":          {who: person("ann"), reason: "SELF_APPROVAL"},
		"the user denies":               {who: person("ann"), deny: true},
		"the user, as the rule permits": {rule: approvals.AnswerRule{Self: &own}, who: person("ann")},
		"the user whom a backend asks":  {level: "engine", who: person("ann")},
		"one of two without a key":      {rule: approvals.AnswerRule{Answers: 2}, reason: "APPROVER_REQUIRED"},
		"one of two whom nothing vouches for": {rule: approvals.AnswerRule{Answers: 2},
			who: approvals.Approver{User: "bob", Unverified: true}, reason: "APPROVER_REQUIRED"},
		"an unverified user of a key": {rule: approvals.AnswerRule{Answers: 2}, who: unverified},
		"a denial without a reason": {rule: approvals.AnswerRule{Reason: approvals.ReasonDeny}, who: person("bob"),
			deny: true, comment: " \n", reason: "REASON_REQUIRED"},
		"an approval that needs none": {rule: approvals.AnswerRule{Reason: approvals.ReasonDeny}, who: person("bob")},
		"an approval without a reason": {rule: approvals.AnswerRule{Reason: approvals.ReasonAlways}, who: person("bob"),
			reason: "REASON_REQUIRED"},
	} {
		k := ruled(t, approvals.Options{}, test.rule)
		r := request("{}")
		r.Level = test.level
		a := ask(t, k, r)
		answer := k.Approve
		if test.deny {
			answer = k.Deny
		}
		_, err := answer(t.Context(), a.Tenant, a.ID, approvals.Answer{Who: test.who, Comment: test.comment})
		if reason(err) != test.reason {
			t.Errorf("%s: %v, want %q", name, err, test.reason)
		}
		var refusal *call.Refusal
		if test.says != "" && (!errors.As(err, &refusal) || !strings.Contains(refusal.Message, test.says)) {
			t.Errorf("%s: %+v", name, refusal)
		}
		if got, _ := k.Get(t.Context(), a.Tenant, a.ID); test.reason != "" && got.State != approvals.Pending {
			t.Errorf("%s: refused, and %v", name, got.State)
		}
	}
}

// TestSeveralAnswers: the required number of different people must approve. The answer is remembered for the narrowest
// scope and the shortest time that they chose.
func TestSeveralAnswers(t *testing.T) {
	t.Parallel()
	always, once := approvals.Answer{Remember: approvals.Always}, approvals.Answer{}
	minute := approvals.Answer{Remember: approvals.Always, ValidFor: time.Minute}
	for name, test := range map[string]struct {
		answers  []approvals.Answer
		remember approvals.Remember
		valid    time.Duration
	}{
		"always, then once":     {[]approvals.Answer{always, once}, approvals.ThisCall, 0},
		"once, then always":     {[]approvals.Answer{once, always}, approvals.ThisCall, 0},
		"always":                {[]approvals.Answer{always, always}, approvals.Always, time.Hour},
		"always, then a minute": {[]approvals.Answer{always, minute}, approvals.Always, time.Minute},
		"a minute, then always": {[]approvals.Answer{minute, always}, approvals.Always, time.Minute},
		"one person always":     {[]approvals.Answer{always}, approvals.Always, time.Hour},
	} {
		set := &rules{}
		k := ruled(t, approvals.Options{Rules: set}, approvals.AnswerRule{Answers: len(test.answers),
			MaxValidity: time.Hour})
		a := ask(t, k, request("{}"))
		var last approvals.Approval
		for i, answer := range test.answers {
			if got, _ := k.Get(t.Context(), a.Tenant, a.ID); got.State != approvals.Pending || len(set.set) > 0 {
				t.Fatalf("%s: %v after %d answers, %+v", name, got.State, i, set.set)
			}
			answer.Who = person(string(rune('a' + i)))
			var err error
			if last, err = k.Approve(t.Context(), a.Tenant, a.ID, answer); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			if _, err = k.Approve(t.Context(), a.Tenant, a.ID, answer); i+1 < len(test.answers) &&
				reason(err) != "ALREADY_ANSWERED" {
				t.Fatalf("%s: the same person again: %v", name, err)
			}
		}
		if last.State != approvals.Approved || last.Remember != test.remember {
			t.Errorf("%s: %v, remembered for %v", name, last.State, last.Remember)
		}
		if ends := last.Answered.Add(test.valid); test.remember == approvals.Always {
			if len(set.set) != 1 || !set.set[0].Expires.Equal(ends) {
				t.Errorf("%s: rules %+v, want one that ends at %v", name, set.set, ends)
			}
		} else if len(set.set) > 0 {
			t.Errorf("%s: rules %+v", name, set.set)
		}
	}
	k := ruled(t, approvals.Options{Rules: &rules{}}, approvals.AnswerRule{MaxValidity: time.Hour})
	a := ask(t, k, request("{}"))
	_, err := k.Approve(t.Context(), a.Tenant, a.ID,
		approvals.Answer{Who: person("bob"), Remember: approvals.Always, ValidFor: time.Hour + time.Second})
	if reason(err) != "APPROVAL_INVALID" {
		t.Errorf("longer than the rule permits: %v", err)
	}
}

// TestTheRuleInForceDecides: one denial denies a call whose rule requires several approvers. If a new rule requires
// fewer answers, the next one may complete the approval, even if the same person gives it.
func TestTheRuleInForceDecides(t *testing.T) {
	t.Parallel()
	k := ruled(t, approvals.Options{}, approvals.AnswerRule{Answers: 3})
	denied, approved := ask(t, k, request("1")), ask(t, k, request("2"))
	for _, a := range []approvals.Approval{denied, approved} {
		got, err := k.Approve(t.Context(), a.Tenant, a.ID, approvals.Answer{Who: person("bob")})
		if err != nil || got.State != approvals.Pending {
			t.Fatalf("%v, %v", got.State, err)
		}
	}
	got, err := k.Deny(t.Context(), denied.Tenant, denied.ID, approvals.Answer{Who: person("eve"), Comment: "no"})
	if err != nil || got.State != approvals.Denied || len(got.Answers) != 2 {
		t.Errorf("%+v, %v", got, err)
	}
	k.SetAnswerRules([]approvals.AnswerRule{{Tenant: "*", Capability: "*", Tool: "*"}})
	got, err = k.Approve(t.Context(), approved.Tenant, approved.ID, approvals.Answer{Who: person("bob")})
	if err != nil || got.State != approvals.Approved || len(got.Answers) != 1 {
		t.Errorf("%+v, %v", got, err)
	}
}

// TestRuleOfACall: the first rule that matches tenant, capability and tool applies.
func TestRuleOfACall(t *testing.T) {
	t.Parallel()
	k := ruled(t, approvals.Options{}, approvals.AnswerRule{})
	k.SetAnswerRules([]approvals.AnswerRule{
		{Tenant: "acme", Capability: "pay", Tool: "send", Answers: 4},
		{Tenant: "acme", Capability: "*", Tool: "*", Answers: 3},
		{Tenant: "*", Capability: "pay", Tool: "*", Answers: 2},
	})
	for _, c := range []struct {
		tenant, capability, tool string
		answers                  int
	}{{"acme", "pay", "send", 4}, {"acme", "pay", "list", 3}, {"acme", "mail", "send", 3}, {"globex", "pay", "send", 2},
		{"globex", "mail", "send", 0}} {
		if got := k.AnswerRule(c.tenant, c.capability, c.tool); got.Answers != c.answers {
			t.Errorf("%+v: %+v", c, got)
		}
	}
}

// TestEscalatedGroups: the further groups may answer from the moment the approval escalates.
func TestEscalatedGroups(t *testing.T) {
	t.Parallel()
	check.Bubble(t, func(t *testing.T) {
		k := ruled(t, approvals.Options{}, approvals.AnswerRule{Groups: []string{"sec"},
			Escalate: approvals.Escalation{After: time.Minute, Groups: []string{"leads"}}})
		r := request("{}")
		a := ask(t, k, r)
		a.Created = time.Now()
		lead := person("bob", "leads")
		<-time.After(time.Minute - 1)
		a.Terms = nil
		if refusal := k.MayAnswer(&a, &lead); reason(refusal) != "APPROVER_GROUP" {
			t.Errorf("before: %v", refusal)
		}
		<-time.After(1)
		if refusal := k.MayAnswer(&a, &lead); refusal != nil {
			t.Errorf("then: %v", refusal)
		}
		if rule := k.AnswerRule(a.Tenant, a.Capability, a.Tool); !slices.Equal(rule.Groups, []string{"sec"}) {
			t.Errorf("the rule has changed: %v", rule.Groups)
		}
	})
}
