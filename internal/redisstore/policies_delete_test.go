package redisstore_test

import (
	"fmt"
	"testing"

	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/redisstore"
	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/policy"
)

// TestRulesOfAToolAreDeleted: for all tenants, users and agents, and no rules of other tools.
func TestRulesOfAToolAreDeleted(t *testing.T) {
	onEveryRedis(t, func(t *testing.T, open func() *redisstore.Store) {
		p := open().Policies()
		gone := []policy.Rule{
			rule("", policy.Name{Capability: "weather", Tool: "forecast"}, call.Allow),
			rule("acme", policy.Name{Capability: "weather", Tool: "forecast"}, call.Ask),
			rule("acme", policy.Name{User: "ann:{1}%\xff", Agent: "a\nb", Capability: "weather", Tool: "forecast"},
				call.Allow),
			rule("{acme}:", policy.Name{Agent: "bot", Capability: "weather", Tool: "forecast"}, call.Block),
		}
		stay := []policy.Rule{
			rule("acme", policy.Name{Capability: "weather", Tool: "forecast2"}, call.Allow),
			rule("acme", policy.Name{Capability: "weather2", Tool: "forecast"}, call.Allow),
			rule("acme", policy.Name{User: "ann", Capability: "weather", Tool: policy.Any}, call.Allow),
			rule("", policy.Name{Capability: policy.Any, Tool: "forecast"}, call.Allow),
		}
		for _, r := range append(gone, stay...) {
			set(t, p, r)
		}
		set(t, p.Candidates(), gone[1])
		before, err := p.Revision(t.Context())
		check.Must(t, err)
		for range 2 { // the second time has no effect
			check.Must(t, p.DeleteTool(t.Context(), "weather", "forecast"))
		}
		if found := find(t, p.Candidates(), gone[1].Tenant, gone[1].Name); found[0].Present {
			t.Error("a candidate is there")
		}
		if after, err := p.Revision(t.Context()); err != nil || after.Version <= before.Version {
			t.Errorf("version %d after %d, %v", after.Version, before.Version, err)
		}
		for _, r := range gone {
			if found := find(t, p, r.Tenant, r.Name); found[0].Present {
				t.Errorf("%+v is there", r)
			}
		}
		for _, r := range stay {
			if found := find(t, p, r.Tenant, r.Name); !found[0].Present {
				t.Errorf("%+v is gone", r)
			}
		}
		if rules, _, err := p.List(t.Context(), "acme", "", 100); err != nil || len(rules) != 3 {
			t.Errorf("listed %+v, %v", rules, err)
		}
		// A rule that was deleted and set again is deleted like any other.
		set(t, p, gone[1])
		if _, err := p.Delete(t.Context(), gone[1].Tenant, gone[1].Name); err != nil {
			t.Fatal(err)
		}
		set(t, p, gone[1])
		check.Must(t, p.DeleteTool(t.Context(), "weather", "forecast"))
		if found := find(t, p, gone[1].Tenant, gone[1].Name); found[0].Present {
			t.Error("a rule that was set again is not deleted")
		}
	})
}

// TestManyRulesAreDeleted: more than one script deletes at once.
func TestManyRulesAreDeleted(t *testing.T) {
	t.Parallel()
	p := open(t, redisstore.Config{}).Policies()
	var last policy.Rule
	for i := range 2100 {
		last = rule("acme", policy.Name{User: fmt.Sprint("user-", i), Capability: "weather", Tool: "forecast"},
			call.Allow)
		set(t, p, last)
	}
	check.Must(t, p.DeleteTool(t.Context(), "weather", "forecast"))
	if rules, _, err := p.List(t.Context(), "acme", "", 10); err != nil || len(rules) != 0 {
		t.Errorf("left: %+v, %v", rules, err)
	}
}
