package redisstore_test

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/ratelimit"
	limitstest "github.com/capgate/capgate/internal/ratelimit/storetest"
	"github.com/capgate/capgate/internal/redisstore"
	"github.com/capgate/capgate/internal/tenant"
	tenanttest "github.com/capgate/capgate/internal/tenant/storetest"
	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/policy"
	"github.com/capgate/capgate/policy/approvals"
	"github.com/capgate/capgate/router/affinity"
	sessionstest "github.com/capgate/capgate/router/affinity/storetest"
)

// furnish writes data of every kind under a tenant's name, except the use of its limits.
func furnish(t *testing.T, s *redisstore.Store, id string) {
	t.Helper()
	for _, of := range []*redisstore.Policies{s.Policies(), s.Policies().Candidates()} {
		set(t, of, rule(id, policy.Name{User: "ann", Capability: "mail", Tool: "send"}, call.Allow))
		set(t, of, rule(id, policy.Name{Capability: policy.Any, Tool: policy.Any}, call.Allow))
	}
	k := service(t, s, approvals.Options{})
	r := request(`{}`)
	r.Tenant = id
	approve(t, k, ask(t, k, r), approvals.Answer{By: "bob", Remember: approvals.ThisSession})
	check.Must(t, s.EngineQuestions().Bind(t.Context(), id, "engine-1 a:1", "q1", "approval", time.Hour))
	session := affinity.Session{Tenant: id, Capability: "mail", ID: "s1"}
	sessionstest.Bind(t, s.Sessions(), sessionstest.Binding(session, "a:1", 0))
	_, err := s.Sessions().StoreLocations(t.Context(),
		[]affinity.Location{{Artifact: affinity.Artifact{Tenant: id, Capability: "mail", ID: "f1"}, Addr: "a:1",
			TTL: time.Hour}})
	check.Must(t, err)
}

// spender makes calls of a tenant, and returns the number of its calls today.
func spender(t *testing.T, s *redisstore.Store, id, uid string) func() int64 {
	t.Helper()
	l := s.Limits("a")
	l.SetAhead(limitstest.Noon(2031, 5, 5))
	seq := int64(0)
	return func() int64 {
		t.Helper()
		seq++
		b := tenant.Bounds{PerDay: 100, PerMonth: 200, CallsPerSecond: 5, Burst: 5, Concurrent: 3}
		got, err := l.Exchange(t.Context(), ratelimit.Owner{ID: id, UID: uid},
			[]ratelimit.Demand{{Bounds: b, Want: 1, Need: 1, Seq: seq}})
		check.Must(t, err)
		return got[0].Day.Calls
	}
}

// under returns the keys whose tag begins with a tenant.
func under(t *testing.T, s *redisstore.Store, id string) []string {
	t.Helper()
	keys, err := s.Approvals().Keys(t.Context(), strings.TrimSuffix(s.Probe().KeyOf(id), "}")+":*")
	check.Must(t, err)
	return keys
}

// TestADeletedTenantLeavesNothing: a new tenant of the same name gets no data of the deleted one, and other
// tenants keep theirs, whatever their names.
func TestADeletedTenantLeavesNothing(t *testing.T) {
	onEveryRedis(t, func(t *testing.T, open func() *redisstore.Store) {
		s, ctx := open(), t.Context()
		tenants := s.Tenants()
		const gone = "slots"
		others := []string{"acme", "slots2", "slot?", "s*", "pin"}
		check.Must(t, tenants.CreateTenant(ctx, tenanttest.Record(gone, "u1")))
		key := tenanttest.Key(gone, "u1")
		check.Must(t, tenants.CreateKey(ctx, key))
		furnish(t, s, gone)
		late := spender(t, s, gone, "u1")
		late()
		keptSpent := map[string]func() int64{}
		for _, id := range others {
			check.Must(t, tenants.CreateTenant(ctx, tenanttest.Record(id, "of "+id)))
			furnish(t, s, id)
			keptSpent[id] = spender(t, s, id, "of "+id)
			keptSpent[id]()
		}
		set(t, s.Policies(), rule("", policy.Name{Capability: "mail", Tool: "send"}, call.Allow))
		probe := s.Probe()
		places := s.Permits("a").Key("pin", "a:1") // a key that begins with the tenant's name and "pin"
		check.Must(t, probe.Set(ctx, places, "1"))
		before, err := s.Policies().Revision(ctx)
		check.Must(t, err)
		if err := tenants.DeleteTenant(ctx, gone, 0, false); !errors.Is(err, tenant.ErrTenantHasKeys) {
			t.Fatalf("with a key: %v", err)
		}
		check.Must(t, tenants.DeleteTenant(ctx, gone, 1, true))
		if left := under(t, s, gone); len(left) != 1 || left[0] != places {
			t.Errorf("left: %q", left)
		}
		if after, err := s.Policies().Revision(ctx); err != nil || after.Version <= before.Version {
			t.Errorf("no event of the rules: version %d after %d, %v", after.Version, before.Version, err)
		}
		if k, err := tenants.FindKey(ctx, key.ID); k != nil || err != nil {
			t.Errorf("its key: %v, %v", k, err)
		}
		for i, id := range others {
			rules, _, err := s.Policies().List(ctx, id, "", 10)
			if err != nil || len(rules) != 2 || s.Approvals().Indexed(ctx, id) != 1 || keptSpent[id]() != 2 {
				t.Errorf("%d: %s has lost something: %v, %v", i, id, rules, err)
			}
			if addr, err := s.Sessions().Locate(ctx, affinity.Artifact{Tenant: id, Capability: "mail",
				ID: "f1"}); addr != "a:1" || err != nil {
				t.Errorf("%s: its artifact is at %q, %v", id, addr, err)
			}
			if r, err := tenants.FindTenant(ctx, id); r == nil || r.Disabled || err != nil {
				t.Errorf("%s: %v, %v", id, r, err)
			}
		}
		// A late report of the deleted tenant's use does not count for the next one.
		late()
		check.Must(t, tenants.CreateTenant(ctx, tenanttest.Record(gone, "u2")))
		if n := spender(t, s, gone, "u2")(); n != 1 {
			t.Errorf("the next one has used %d calls, want its own one", n)
		}
	})
}

// TestADeletedTenantLeavesTheNoticesOfOthers: a destination and a tenant may have one hash tag.
func TestADeletedTenantLeavesTheNoticesOfOthers(t *testing.T) {
	onEveryRedis(t, func(t *testing.T, open func() *redisstore.Store) {
		s, ctx := open(), t.Context()
		notices, spent := s.Notices("limits"), spender(t, s, "webhooks", "u1")
		_, err := notices.Put(ctx, "acme", "", "1-0", nil, 10)
		check.Must(t, err)
		check.Must(t, s.Tenants().CreateTenant(ctx, tenanttest.Record("webhooks", "u1")))
		spent()
		check.Must(t, s.Tenants().DeleteTenant(ctx, "webhooks", 0, false))
		if all, err := notices.Cursors(ctx, []string{"acme"}); all["acme"] != "1-0" || err != nil {
			t.Errorf("cursors: %v, %v", all, err)
		}
		if left := under(t, s, "webhooks"); len(left) != 1 {
			t.Errorf("left: %q", left)
		}
	})
}

// TestArtifactsOfADeletedTenant: they have no owner while their backend may have them: neither the next tenant
// of that name nor another one gets them from a result. Artifacts of other owners stay theirs.
func TestArtifactsOfADeletedTenant(t *testing.T) {
	onEveryRedis(t, func(t *testing.T, open func() *redisstore.Store) {
		s, ctx := open(), t.Context()
		announce := func(of, id string) bool {
			t.Helper()
			kept, err := s.Sessions().StoreLocations(ctx,
				[]affinity.Location{{Artifact: affinity.Artifact{Tenant: of, Capability: "mail", ID: id}, Addr: "a:1",
					OwnedOnly: true, TTL: time.Hour}})
			check.Must(t, err)
			return kept[0]
		}
		check.Must(t, s.Tenants().CreateTenant(ctx, tenanttest.Record("acme", "u1")))
		for i, its := range [][2]string{{"acme", "f1"}, {"globex", "f2"}, {"acme", "f1"}} {
			if !announce(its[0], its[1]) {
				t.Fatalf("claim %d: %s does not own %s", i, its[0], its[1])
			}
		}
		check.Must(t, s.Tenants().DeleteTenant(ctx, "acme", 0, false))
		check.Must(t, s.Tenants().CreateTenant(ctx, tenanttest.Record("acme", "u2")))
		for _, of := range []string{"acme", "globex"} {
			if announce(of, "f1") {
				t.Errorf("%s has what the deleted tenant had", of)
			}
		}
		if !announce("globex", "f2") {
			t.Error("another's is not its own any more")
		}
		if announce("acme", "f2") {
			t.Error("another's is the new tenant's, too")
		}
		probe := s.Probe()
		key := redisstore.ArtifactOwnerKey(s.Sessions(), affinity.Artifact{Capability: "mail", ID: "f1"})
		check.Must(t, probe.Do(ctx, func(ctx context.Context, r redis.Cmdable) error {
			if ttl, err := r.PTTL(ctx, key).Result(); err != nil || ttl <= 0 || ttl > time.Hour {
				t.Errorf("%s stays %v, %v", key, ttl, err)
			}
			return nil
		}))
	})
}

// TestManyKeysAreErased: more than one command visits.
func TestManyKeysAreErased(t *testing.T) {
	onEveryRedis(t, func(t *testing.T, open func() *redisstore.Store) {
		s, ctx := open(), t.Context()
		check.Must(t, s.Tenants().CreateTenant(ctx, tenanttest.Record("acme", "u1")))
		for range 8 {
			var some []affinity.Location
			for range 250 {
				some = append(some, affinity.Location{Artifact: affinity.Artifact{Tenant: "acme", Capability: "mail",
					ID: rand.Text()}, Addr: "a:1", TTL: time.Hour})
			}
			_, err := s.Sessions().StoreLocations(ctx, some)
			check.Must(t, err)
		}
		check.Must(t, s.Tenants().DeleteTenant(ctx, "acme", 0, false))
		if left := under(t, s, "acme"); len(left) != 0 {
			t.Errorf("%d keys are left", len(left))
		}
	})
}

// TestADeletionThatFailed: it can be repeated; until then the name stays in use.
func TestADeletionThatFailed(t *testing.T) {
	onEveryRedis(t, func(t *testing.T, open func() *redisstore.Store) {
		s, ctx := open(), t.Context()
		tenants := s.Tenants()
		check.Must(t, tenants.CreateTenant(ctx, tenanttest.Record("acme", "u1")))
		furnish(t, s, "acme")
		// A key of the wrong type makes the deletion fail.
		probe := s.Probe()
		key := probe.KeyOf("policies", "tenants")
		check.Must(t, probe.Do(ctx, func(ctx context.Context, r redis.Cmdable) error { return r.Del(ctx, key).Err() }))
		check.Must(t, probe.Set(ctx, key, "nonsense"))
		if err := tenants.DeleteTenant(ctx, "acme", 1, true); err == nil {
			t.Fatal("no error")
		}
		if r, err := tenants.FindTenant(ctx, "acme"); err != nil || r == nil || !r.Disabled {
			t.Fatalf("it is not switched off: %+v, %v", r, err)
		}
		if err := tenants.CreateTenant(ctx, tenanttest.Record("acme", "u2")); !errors.Is(err, tenant.ErrTenantExists) {
			t.Errorf("its name is free: %v", err)
		}
		check.Must(t, probe.Do(ctx, func(ctx context.Context, r redis.Cmdable) error { return r.Del(ctx, key).Err() }))
		check.Must(t, tenants.DeleteTenant(ctx, "acme", 1, true))
		check.Must(t, tenants.CreateTenant(ctx, tenanttest.Record("acme", "u2")))
		if rules, _, err := s.Policies().List(ctx, "acme", "", 10); err != nil || len(rules) != 0 {
			t.Errorf("inherited: %v, %v", rules, err)
		}
	})
}

// TestKeysOfADeletedTenant: they do not authenticate for a tenant in the file with the same id, at other
// replicas either.
func TestKeysOfADeletedTenant(t *testing.T) {
	onEveryRedis(t, func(t *testing.T, open func() *redisstore.Store) {
		ctx, stop := context.WithCancel(t.Context())
		tenants := open().Tenants()
		check.Must(t, tenants.CreateTenant(ctx, tenanttest.Record("acme", "u1")))
		id, secret := tenant.NewCredential()
		k := tenanttest.Key("acme", "u1")
		k.ID, k.Hash = id, tenant.HashOf(secret, nil)
		check.Must(t, tenants.CreateKey(ctx, k))
		stored := tenant.NewStored(open().Tenants(), tenant.Options{TTL: time.Hour})
		var running sync.WaitGroup
		running.Go(func() { stored.Watch(ctx) })
		defer check.Ended(t, &running, "the background work to end")
		defer stop()
		claim := tenant.Credentials{Credential: tenant.Credential(id, secret)}
		check.Until(t, "the key to be known", func() (bool, string) {
			_, refusal := stored.Authenticate(ctx, claim)
			_, known, _ := stored.Lookup(claim)
			return refusal == nil && known, fmt.Sprintf("it is known: %t, and refused: %v", known, refusal)
		})
		check.Must(t, tenants.DeleteTenant(ctx, "acme", 0, true))
		stored.Directory().Replace(map[string]*tenant.Settings{"acme": {ID: "acme"}})
		check.Until(t, "the key to be refused", func() (bool, string) {
			_, refusal := stored.Authenticate(ctx, claim)
			return refusal != nil && refusal.Reason == "CREDENTIAL_INVALID", fmt.Sprint(refusal)
		})
	})
}
