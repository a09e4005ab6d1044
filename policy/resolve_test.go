package policy_test

import (
	"cmp"
	"fmt"
	"testing"
	"time"

	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/policy"
)

var aCall = call.Call{Tenant: "acme", User: "ann", Agent: "bot", Capability: "weather", Tool: "forecast"}

// ladder returns all rules that apply to aCall, the most specific one first.
func ladder() (rules []policy.Rule, levels []policy.Level) {
	for _, scope := range []struct {
		tenant, user, agent string
		level               policy.Level
	}{
		{"acme", "ann", "bot", policy.UserAgent}, {"acme", "ann", "", policy.User},
		{"acme", "", "bot", policy.TenantAgent},
		{"acme", "", "", policy.Tenant}, {"", "", "", policy.Global},
	} {
		for _, what := range [][2]string{{"weather", "forecast"}, {"weather", "*"}, {"*", "forecast"}, {"*", "*"}} {
			rules = append(rules, policy.Rule{
				Tenant: scope.tenant, Name: policy.Name{User: scope.user, Agent: scope.agent, Capability: what[0],
					Tool: what[1]},
			})
			levels = append(levels, scope.level)
		}
	}
	return rules, levels
}

// TestTheNearestRuleDecides sets every pair of rules that apply to a call, with every verdict. The more specific one
// decides.
func TestTheNearestRuleDecides(t *testing.T) {
	t.Parallel()
	rules, levels := ladder()
	verdicts := []call.Verdict{call.Block, call.Ask, call.Allow}
	for near := range rules {
		for far := near; far < len(rules); far++ {
			for i, verdict := range verdicts {
				store := &memory{}
				store.set(rules[far].Tenant, rules[far].Name, verdicts[(i+1)%3])
				store.set(rules[near].Tenant, rules[near].Name, verdict)
				for _, what := range []said{
					{call.Allow, policy.Recommended, policy.Accepted}, {call.Block, policy.Default, policy.Accepted},
				} {
					d := newDecider(t, policy.Options{Store: store, Source: what})
					got, refusal := d.Fetch(t.Context(), &aCall)
					if refusal != nil || got.Verdict != verdict || got.Level != levels[near] {
						t.Fatalf("%+v before %+v: got %+v, %v; want %v by %v", rules[near], rules[far], got, refusal,
							verdict, levels[near])
					}
				}
			}
		}
	}
}

func TestRulesOfOthersSayNothing(t *testing.T) {
	t.Parallel()
	for _, r := range []policy.Rule{
		{Tenant: "other", Name: policy.Name{Capability: "weather", Tool: "forecast"}},
		{Tenant: "acme", Name: policy.Name{User: "bob", Capability: "weather", Tool: "forecast"}},
		{Tenant: "acme", Name: policy.Name{User: "ann", Agent: "other", Capability: "weather", Tool: "forecast"}},
		{Tenant: "acme", Name: policy.Name{User: "bob", Agent: "bot", Capability: "weather", Tool: "forecast"}},
		{Tenant: "acme", Name: policy.Name{Agent: "other", Capability: "*", Tool: "*"}},
		{Tenant: "acme", Name: policy.Name{Capability: "weather", Tool: "alerts"}},
		{Tenant: "acme", Name: policy.Name{Capability: "mail", Tool: "*"}},
		{Tenant: "", Name: policy.Name{Capability: "mail", Tool: "forecast"}},
		{Tenant: "", Name: policy.Name{User: "ann", Capability: "*", Tool: "*"}},
	} {
		t.Run(fmt.Sprintf("%+v", r), func(t *testing.T) {
			t.Parallel()
			store := &memory{}
			store.set(r.Tenant, r.Name, call.Allow)
			d := newDecider(t, policy.Options{Store: store})
			if got, refusal := d.Fetch(t.Context(), &aCall); refusal != nil ||
				got != (policy.Decision{Verdict: call.Block, Level: policy.Default}) {
				t.Errorf("got %+v, %v", got, refusal)
			}
		})
	}
}

// TestWithoutRules: without a rule, the manifest's recommendation decides, then the fleet's policy, and otherwise the
// call is blocked.
func TestWithoutRules(t *testing.T) {
	t.Parallel()
	for _, source := range []said{
		{call.Allow, policy.Recommended, policy.Accepted}, {call.Ask, policy.Recommended, policy.Accepted},
		{call.Block, policy.Recommended, policy.Accepted},
		{call.Allow, policy.Fleet, policy.Accepted}, {call.Block, policy.Default, policy.Accepted},
	} {
		for _, store := range []policy.Store{nil, &memory{}} {
			d := newDecider(t, policy.Options{Store: store, Source: source})
			got, refusal := d.Fetch(t.Context(), &aCall)
			if refusal != nil || got.Verdict != source.verdict || got.Level != source.level {
				t.Errorf("%+v: got %+v, %v", source, got, refusal)
			}
		}
	}
	d := newDecider(t, policy.Options{})
	if got, ok := d.Decide(&aCall); !ok || got != (policy.Decision{Verdict: call.Block, Level: policy.Default}) {
		t.Errorf("nobody says anything: got %+v, %v", got, ok)
	}
}

// TestADriftedToolIsAskedAbout: a rule that allows a tool was set for its earlier version, so a drifted tool requires
// approval. A tool may also drift for a single caller, whether the decision is cached or not.
func TestADriftedToolIsAskedAbout(t *testing.T) {
	t.Parallel()
	for verdict, want := range map[call.Verdict]call.Verdict{
		call.Allow: call.Ask, call.Ask: call.Ask, call.Block: call.Block,
	} {
		store := &memory{}
		store.set("acme", policy.Name{User: "ann", Capability: "weather", Tool: "forecast"}, verdict)
		for _, state := range []policy.ToolState{policy.Drifted, policy.Accepted} {
			d := newDecider(t, policy.Options{Store: store, Source: said{call.Allow, policy.Recommended, state}})
			changed := aCall
			changed.Changed = state == policy.Accepted
			for range 2 {
				got, refusal := d.Fetch(t.Context(), &changed)
				if refusal != nil || got.Verdict != want || got.Drifted != (verdict == call.Allow) ||
					got.Level != policy.User {
					t.Errorf("%v: got %+v, %v", verdict, got, refusal)
				}
			}
			if got, refusal := d.Fetch(t.Context(), &aCall); state == policy.Accepted &&
				(refusal != nil || got.Verdict != verdict || got.Drifted) {
				t.Errorf("%v for others: got %+v, %v", verdict, got, refusal)
			}
		}
	}
}

// TestAnUnlistedToolNeedsARuleThatNamesIt: rules for any tool do not apply to a tool that the capability does not list.
func TestAnUnlistedToolNeedsARuleThatNamesIt(t *testing.T) {
	t.Parallel()
	rules, levels := ladder()
	for i, r := range rules {
		for _, verdict := range []call.Verdict{call.Allow, call.Ask, call.Block} {
			store := &memory{}
			store.set(r.Tenant, r.Name, verdict)
			d := newDecider(t, policy.Options{Store: store, Source: said{call.Block, policy.Default, policy.Unlisted}})
			want := policy.Decision{Verdict: verdict, Level: levels[i]}
			if r.Tool == policy.Any {
				want = policy.Decision{Verdict: call.Block, Level: policy.Default}
			}
			if got, refusal := d.Fetch(t.Context(), &aCall); refusal != nil || got != want {
				t.Errorf("%+v, %v: got %+v, %v; want %+v", r, verdict, got, refusal, want)
			}
			got, looks, err := d.Explain(t.Context(), &aCall, store)
			decided := policy.Level(0)
			for _, l := range looks {
				if l.Decided {
					decided = l.Level
				}
			}
			if err != nil || got != want || decided != want.Level {
				t.Errorf("%+v, %v: explained as %+v by %v, %v", r, verdict, got, decided, err)
			}
		}
	}
}

func TestExplain(t *testing.T) {
	t.Parallel()
	store := &memory{}
	store.set("acme", policy.Name{Agent: "bot", Capability: "weather", Tool: "*"}, call.Ask)
	store.set("", policy.Name{Capability: "*", Tool: "*"}, call.Allow)
	d := newDecider(t, policy.Options{Store: store, Source: said{call.Block, policy.Default, policy.Accepted}})
	decision, looks, err := d.Explain(t.Context(), &aCall, store)
	if err != nil || decision.Verdict != call.Ask || decision.Level != policy.TenantAgent {
		t.Fatalf("got %+v, %v", decision, err)
	}
	rules, levels := ladder()
	if len(looks) != len(rules)+3 {
		t.Fatalf("%d places", len(looks))
	}
	var said, decided int
	for i, l := range looks {
		if i < len(rules) && (l.Level != levels[i] || l.Name != rules[i].Name) {
			t.Errorf("place %d is %+v", i, l)
		}
		if l.Matched {
			said++
		}
		if l.Decided {
			decided++
			if l.Level != policy.TenantAgent || l.Name.Tool != "*" {
				t.Errorf("%+v decided", l)
			}
		}
	}
	if said != 3 || decided != 1 {
		t.Errorf("%d places said something, %d decided", said, decided)
	}
	store.leave(true)
	if _, _, err := d.Explain(t.Context(), &aCall, store); err == nil {
		t.Error("explained without its rules")
	}
}

func newDecider(t testing.TB, o policy.Options) *policy.Decider {
	t.Helper()
	if o.Entries == 0 {
		o.Entries = 16 * 16 // many entries
	}
	o.Timeout = cmp.Or(o.Timeout, time.Minute) // long, so that the store does not seem unavailable on a busy machine
	d, err := policy.New(o)
	check.Must(t, err)
	d.Synced()
	return d
}
