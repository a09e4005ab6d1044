package redisstore_test

import (
	"context"
	"fmt"
	"reflect"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/redisstore"
	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/policy"
	"github.com/capgate/capgate/policy/storetest"
)

// odd is the name of a rule with parts that have a meaning in Redis or in keys.
var odd = policy.Name{User: "ann:{1}%\xff", Agent: "a\nb", Capability: "weather", Tool: policy.Any}

func rule(tenant string, n policy.Name, v call.Verdict) policy.Rule {
	return policy.Rule{Tenant: tenant, Name: n, Verdict: v, By: `an "admin"`}
}

func set(t *testing.T, p *redisstore.Policies, r policy.Rule) {
	t.Helper()
	check.Must(t, p.Set(t.Context(), r))
}

func find(t *testing.T, p *redisstore.Policies, tenant string, names ...policy.Name) []policy.Found {
	t.Helper()
	found, err := p.Find(t.Context(), tenant, names)
	check.Must(t, err)
	return found
}

func TestRules(t *testing.T) {
	runContract(t, storetest.Suite(), func(s *redisstore.Store) storetest.Store { return s.Policies() })
}

func TestRulesAreListed(t *testing.T) {
	onEveryRedis(t, func(t *testing.T, open func() *redisstore.Store) {
		p := open().Policies()
		if rules, next, err := p.List(t.Context(), "acme", "", 10); len(rules) != 0 || next != "" || err != nil {
			t.Errorf("none: %v, %q, %v", rules, next, err)
		}
		var want []string
		for i := range 25 {
			n := policy.Name{User: fmt.Sprintf("user-%02d", i), Capability: "weather", Tool: "forecast"}
			set(t, p, rule("acme", n, call.Ask))
			want = append(want, n.User)
		}
		set(t, p, rule("other", odd, call.Allow))
		var got []string
		for after, pages := "", 0; ; pages++ {
			rules, next, err := p.List(t.Context(), "acme", after, 10)
			if err != nil || len(rules) > 10 || pages > 3 {
				t.Fatalf("page %d: %d rules, %v", pages, len(rules), err)
			}
			for _, r := range rules {
				got = append(got, r.User)
				if r.Verdict != call.Ask || r.By != `an "admin"` || r.Tenant != "acme" ||
					time.Since(r.At).Abs() > time.Hour {
					t.Errorf("got %+v", r)
				}
			}
			if after = next; after == "" {
				break
			}
		}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("got %q", got)
		}
		rules, _, err := p.List(t.Context(), "other", "", 10)
		if err != nil || len(rules) != 1 || rules[0].Name != odd {
			t.Errorf("the odd one: %+v, %v", rules, err)
		}
	})
}

// TestRulesSaySinceWhenTheyAre: since is the time of the first rule of a name without a gap, whatever its
// verdict; also for values without that field.
func TestRulesSaySinceWhenTheyAre(t *testing.T) {
	t.Parallel()
	onEveryRedisWith(t, nil, func(t *testing.T, open func() *redisstore.Store) {
		s := open()
		p := s.Policies()
		n := policy.Name{Capability: "weather", Tool: "forecast"}
		listed := func() policy.Rule {
			t.Helper()
			rules, _, err := p.List(t.Context(), "acme", "", 10)
			if err != nil || len(rules) != 1 {
				t.Fatalf("got %+v, %v", rules, err)
			}
			return rules[0]
		}
		later := func(than time.Time) (r policy.Rule) { // Redis' clock, in ms
			t.Helper()
			check.Until(t, "Redis' clock to go on", func() (bool, string) {
				set(t, p, rule("acme", n, call.Ask))
				r = listed()
				return r.At.After(than), fmt.Sprintf("a rule of %v, set after one of %v", r.At, than)
			})
			return r
		}
		first := later(time.Time{})
		if !first.Since.Equal(first.At) {
			t.Errorf("the first: %+v", first)
		}
		next := later(first.At)
		if next = later(next.At); !next.Since.Equal(first.At) {
			t.Errorf("set again: %+v", next)
		}
		if _, err := p.Delete(t.Context(), "acme", n); err != nil {
			t.Fatal(err)
		}
		if r := later(time.Time{}); r.Since.Before(next.At) {
			t.Errorf("deleted and set: %+v", r)
		}
		if err := s.Probe().Do(t.Context(), func(ctx context.Context, r redis.Cmdable) error {
			return r.HSet(ctx, p.Key("acme"), "::weather:forecast",
				`{"verdict":"allow","by":"x,\"at\":7}","at":1000}`).Err()
		}); err != nil {
			t.Fatal(err)
		}
		if r := listed(); !r.Since.Equal(time.UnixMilli(1000)) {
			t.Errorf("of before: %+v", r)
		}
		if r := later(time.UnixMilli(1000)); !r.Since.Equal(time.UnixMilli(1000)) || r.Verdict != call.Ask {
			t.Errorf("of before, and set: %+v", r)
		}
	})
}

// TestAMalformedRuleBlocks: its verdict is unknown.
func TestAMalformedRuleBlocks(t *testing.T) {
	t.Parallel()
	onEveryRedisWith(t, nil, func(t *testing.T, open func() *redisstore.Store) {
		s := open()
		p := s.Policies()
		n := policy.Name{Capability: "weather", Tool: "forecast"}
		for i, text := range []string{"", "allow", "{}", `{"verdict":"ALLOW"}`, `{"verdict":"allow"`, `{"verdict":2}`,
			"[]", "\xff"} {
			set(t, p, rule("acme", n, call.Allow))
			if err := s.Probe().Do(t.Context(), func(ctx context.Context, r redis.Cmdable) error {
				return r.HSet(ctx, p.Key("acme"), "::weather:forecast", text).Err()
			}); err != nil {
				t.Fatal(err)
			}
			if got := find(t, p, "acme", n); got[0] != (policy.Found{Present: true, Verdict: call.Block}) {
				t.Errorf("%q: %+v", text, got)
			}
			rules, _, err := p.List(t.Context(), "acme", "", 10)
			if err != nil || len(rules) != 1 || rules[0].Verdict != call.Block {
				t.Errorf("%q: %+v, %v", text, rules, err)
			}
			if m := s.Stats().Malformed; m != int64(2*i+2) {
				t.Errorf("%q: %d malformed values counted", text, m)
			}
		}
	})
}

// TestCandidatesAreASetOfTheirOwn: candidates and rules with the same names do not affect each other.
func TestCandidatesAreASetOfTheirOwn(t *testing.T) {
	onEveryRedis(t, func(t *testing.T, open func() *redisstore.Store) {
		inForce := open().Policies()
		candidates := inForce.Candidates()
		for _, tenant := range []string{"acme", ""} {
			n := policy.Name{Capability: "weather", Tool: "forecast"}
			set(t, inForce, rule(tenant, n, call.Allow))
			set(t, candidates, rule(tenant, n, call.Ask))
			if a, b := find(t, inForce, tenant, n)[0], find(t, candidates, tenant, n)[0]; a.Verdict != call.Allow ||
				b.Verdict != call.Ask {
				t.Errorf("%q: %+v, %+v", tenant, a, b)
			}
			rules, _, err := candidates.List(t.Context(), tenant, "", 10)
			if err != nil || len(rules) != 1 || rules[0].Verdict != call.Ask {
				t.Errorf("%q: %+v, %v", tenant, rules, err)
			}
			if _, err := inForce.Delete(t.Context(), tenant, n); err != nil {
				t.Error(err)
			}
			if a, b := find(t, inForce, tenant, n)[0], find(t, candidates, tenant, n)[0]; a.Present || !b.Present {
				t.Errorf("%q, deleted: %+v, %+v", tenant, a, b)
			}
		}
	})
}

// TestCallersAreRemembered: the latest ones, of all replicas.
func TestCallersAreRemembered(t *testing.T) {
	onEveryRedis(t, func(t *testing.T, open func() *redisstore.Store) {
		a, b := open().Policies(), open().Policies()
		if keys, err := a.Load(t.Context(), 10); len(keys) != 0 || err != nil {
			t.Errorf("nobody has called: %v, %v", keys, err)
		}
		key := func(i int) policy.Key {
			return policy.Key{Subject: policy.Subject{Tenant: "acme:{1}", User: fmt.Sprint(i), Agent: "a b"},
				Capability: "weather", Tool: "\xff%"}
		}
		for batch := range 11 {
			var keys []policy.Key
			for i := range 1000 {
				keys = append(keys, key(batch*1000+i))
			}
			check.Must(t, a.Save(t.Context(), keys))
		}
		keys, err := b.Load(t.Context(), 20_000)
		if err != nil || len(keys) != policy.MaxRecent {
			t.Fatalf("%d keys, %v", len(keys), err)
		}
		all := map[policy.Key]bool{}
		for _, k := range keys {
			all[k] = true
		}
		if len(all) != len(keys) || all[key(7)] || !all[key(10_007)] {
			t.Errorf("%d of %d differ; the oldest is there: %v; the newest is: %v", len(all), len(keys), all[key(7)],
				all[key(10_007)])
		}
		if keys, err := b.Load(t.Context(), 10); err != nil || len(keys) != 10 {
			t.Errorf("%d keys, %v", len(keys), err)
		}
	})
}

// TestRulesAreFollowed: each change is published to every replica with its version. The nodes of a Cluster pass
// messages on in no order, and a command that it executed twice publishes twice.
func TestRulesAreFollowed(t *testing.T) {
	onEveryRedis(t, func(t *testing.T, open func() *redisstore.Store) {
		a, b := open().Policies(), open().Policies()
		type news struct {
			version uint64
			change  policy.Change
		}
		received, connected := make(chan news, 100), make(chan struct{}, 100)
		ctx, cancel := context.WithCancel(t.Context())
		var watching sync.WaitGroup
		watching.Go(func() {
			b.Watch(ctx, func(v uint64, c policy.Change) { received <- news{v, c} }, func() { connected <- struct{}{} })
		})
		check.Received(t, connected, "the subscription")
		if r, err := b.Revision(t.Context()); r.Version != 0 || r.Epoch != "" || err != nil {
			t.Errorf("got %+v, %v", r, err)
		}
		plain := policy.Name{Capability: "weather", Tool: "forecast"}
		set(t, a, rule("acme", odd, call.Ask))
		if _, err := a.Delete(t.Context(), "acme", plain); err != nil {
			t.Error(err)
		}
		want := map[policy.Change]bool{{Tenant: "acme", Name: odd}: true, {Tenant: "acme", Name: plain}: true}
		last := uint64(0)
		for len(want) > 0 {
			got := check.Received(t, received, "the change")
			if got.version == 0 || got.change.Tenant != "acme" || got.change.Name != odd && got.change.Name != plain {
				t.Errorf("received %+v", got)
			}
			delete(want, got.change)
			last = max(last, got.version)
		}
		if r, err := b.Revision(t.Context()); last < 2 || r.Version < last || r.Epoch == "" || err != nil {
			t.Errorf("%+v after %d, %v", r, last, err)
		}
		cancel()
		check.Ended(t, &watching, "the watches to stop")
	})
}
