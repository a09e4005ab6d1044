package policy_test

import (
	"testing"
	"time"

	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/testkit/clocktest"
	"github.com/capgate/capgate/policy"
)

// TestCandidatesAreCompared: candidate rules are evaluated as if each of them applied, without an effect on decisions.
func TestCandidatesAreCompared(t *testing.T) {
	t.Parallel()
	everything := policy.Name{Capability: policy.Any, Tool: policy.Any}
	for name, test := range map[string]struct {
		source    said
		rules     func(inForce, candidates *memory)
		verdict   call.Verdict
		differs   bool
		candidate call.Verdict
	}{
		"no candidates": {said{call.Ask, policy.Fleet, policy.Accepted}, func(r, _ *memory) {
			r.set("acme", tenantAllows, call.Allow)
		}, call.Allow, false, 0},
		"of another tool": {said{call.Ask, policy.Fleet, policy.Accepted}, func(r, c *memory) {
			r.set("acme", tenantAllows, call.Allow)
			c.set("acme", policy.Name{Capability: policy.Any, Tool: "another"}, call.Block)
		}, call.Allow, false, 0},
		"below a rule": {said{call.Ask, policy.Fleet, policy.Accepted}, func(r, c *memory) {
			r.set("acme", tenantAllows, call.Allow)
			c.set("", everything, call.Block)
		}, call.Allow, false, 0},
		"in place of a rule": {said{call.Ask, policy.Fleet, policy.Accepted}, func(r, c *memory) {
			r.set("acme", tenantAllows, call.Allow)
			c.set("acme", tenantAllows, call.Block)
		}, call.Allow, true, call.Block},
		"the same": {said{call.Ask, policy.Fleet, policy.Accepted}, func(r, c *memory) {
			r.set("acme", tenantAllows, call.Allow)
			c.set("", everything, call.Allow)
		}, call.Allow, false, 0},
		"stricter": {said{call.Allow, policy.Fleet, policy.Accepted}, func(_, c *memory) {
			c.set("acme", policy.Name{User: "ann", Capability: policy.Any, Tool: policy.Any}, call.Block)
		}, call.Allow, true, call.Block},
		"laxer": {said{call.Block, policy.Default, policy.Accepted}, func(r, c *memory) {
			r.set("", everything, call.Block)
			c.set("", everything, call.Allow)
		}, call.Block, true, call.Allow},
		"of a drifted tool": {said{call.Allow, policy.Fleet, policy.Drifted}, func(r, c *memory) {
			r.set("acme", tenantAllows, call.Ask)
			c.set("acme", tenantAllows, call.Allow)
		}, call.Ask, false, 0},
		"of others": {said{call.Allow, policy.Fleet, policy.Accepted}, func(_, c *memory) {
			c.set("other", tenantAllows, call.Block)
			c.set("acme", policy.Name{User: "bob", Capability: policy.Any, Tool: policy.Any}, call.Block)
		}, call.Allow, false, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inForce, candidates := &memory{}, &memory{}
			test.rules(inForce, candidates)
			d := newDecider(t, policy.Options{Store: inForce, Shadow: candidates, Source: test.source})
			for range 2 { // from the store, and then from the cache
				got, refusal := both(t, d, &aCall)
				if refusal != nil || got.Verdict != test.verdict || got.Differs != test.differs ||
					got.Candidate != test.candidate {
					t.Errorf("got %+v, %v", got, refusal)
				}
			}
			if got, _, err := d.Explain(t.Context(), &aCall, inForce, candidates); err != nil ||
				(got.Verdict != test.verdict) != test.differs {
				t.Errorf("explained as %+v, %v", got, err)
			}
		})
	}
}

// TestCandidatesAreFollowed: replicas follow changes of candidates as they follow those of rules.
func TestCandidatesAreFollowed(t *testing.T) {
	t.Parallel()
	candidates := &memory{}
	d := newDecider(t, policy.Options{Store: &memory{}, Shadow: candidates})
	if got, _ := both(t, d, &aCall); got.Differs {
		t.Errorf("got %+v", got)
	}
	candidates.set("acme", tenantAllows, call.Allow)
	d.Invalidate(policy.Change{Tenant: "acme", Name: tenantAllows})
	if got, _ := both(t, d, &aCall); got.Verdict != call.Block || !got.Differs || got.Candidate != call.Allow {
		t.Errorf("got %+v", got)
	}
}

// TestCandidatesThatCannotBeRead: candidates that cannot be read have no effect on calls.
func TestCandidatesThatCannotBeRead(t *testing.T) {
	t.Parallel()
	store, candidates := &memory{}, &memory{}
	store.set("acme", tenantAllows, call.Allow)
	candidates.leave(true)
	d := newDecider(t, policy.Options{Store: store, Shadow: candidates})
	for range 3 {
		if got, refusal := both(t, d, &aCall); refusal != nil || got.Verdict != call.Allow || got.Differs {
			t.Errorf("got %+v, %v", got, refusal)
		}
	}
	if n := candidates.questions(); n != 1 {
		t.Errorf("asked %d times", n)
	}
}

// TestTheFirstEndOfTwoCounts: a cached decision expires with its rule even if the candidate expires later, and a
// comparison expires with its candidate.
func TestTheFirstEndOfTwoCounts(t *testing.T) {
	t.Parallel()
	for name, ends := range map[string]struct{ rule, candidate time.Duration }{
		"the rule first":      {time.Minute, time.Hour},
		"the candidate first": {time.Hour, time.Minute},
	} {
		now := clocktest.New(time.Now())
		store, candidates := &memory{}, &memory{}
		until := func(v call.Verdict, after time.Duration) policy.Found {
			return policy.Found{Present: true, Verdict: v, Expires: now.Now().Add(after)}
		}
		store.setFound("acme", tenantAllows, until(call.Allow, ends.rule))
		candidates.setFound("acme", tenantAllows, until(call.Ask, ends.candidate))
		d := newDecider(t, policy.Options{Store: store, Shadow: candidates, TTL: 10 * time.Hour, Now: now.Now})
		if got, refusal := both(t, d, &aCall); refusal != nil || got.Verdict != call.Allow || !got.Differs {
			t.Errorf("%s: at first %+v, %v", name, got, refusal)
		}
		now.Add(time.Minute - 1)
		d.Synced()
		if _, known := d.Decide(&aCall); !known {
			t.Errorf("%s: not in the cache before the first end", name)
		}
		now.Add(1)
		if got, known := d.Decide(&aCall); known {
			t.Errorf("%s: the cache has %+v after the first end", name, got)
		}
		if got, refusal := both(t, d, &aCall); refusal != nil ||
			got.Differs != (ends.rule < ends.candidate) {
			t.Errorf("%s: after the first end %+v, %v", name, got, refusal)
		}
	}
}
