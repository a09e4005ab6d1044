package tenant_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/tenant"
)

var epoch = time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)

// issue returns a key of a tenant, and its credential.
func issue(of string, pepper []byte, change func(*tenant.Key)) (tenant.Key, string) {
	id, secret := tenant.NewCredential()
	k := tenant.Key{ID: id, Tenant: of, Hash: tenant.HashOf(secret, pepper), Scopes: tenant.Invoke}
	if change != nil {
		change(&k)
	}
	return k, tenant.Credential(id, secret)
}

func keysOf(pepper []byte, keys ...tenant.Key) *tenant.Keys {
	k := tenant.NewKeys(func() time.Time { return epoch })
	k.Replace(keys, nil, pepper)
	return k
}

func reasonOf(r *call.Refusal) string {
	if r == nil {
		return ""
	}
	return r.Reason
}

var peppers = map[string][]byte{"without a pepper": nil, "with one": []byte("0123456789abcdef")}

func TestIdentify(t *testing.T) {
	t.Parallel()
	for name, pepper := range peppers {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			plain, ofPlain := issue("acme", pepper, nil)
			both, ofBoth := issue("globex", pepper,
				func(k *tenant.Key) { k.Asserts, k.Scopes = tenant.User|tenant.Agent, tenant.Read|tenant.Admin })
			agent, ofAgent := issue("globex", pepper, func(k *tenant.Key) { k.Asserts = tenant.Agent })
			late, ofLate := issue("acme", pepper, func(k *tenant.Key) { k.Expires = epoch })
			soon, ofSoon := issue("acme", pepper, func(k *tenant.Key) { k.Expires = epoch.Add(1) })
			old, ofOld := issue("acme", nil, nil) // from before the pepper
			keys := keysOf(pepper, plain, both, agent, late, soon, old)
			long := strings.Repeat("a", 257)
			for what, test := range map[string]struct {
				claim  tenant.Credentials
				want   tenant.Identity
				reason string
			}{
				"asserts nothing": {tenant.Credentials{Credential: ofPlain, User: "ann", Agent: "bot"},
					tenant.Identity{Tenant: "acme", Key: plain.ID, Scopes: tenant.Invoke}, ""},
				"a long name": {tenant.Credentials{Credential: ofPlain, User: long, Agent: ""},
					tenant.Identity{Tenant: "acme", Key: plain.ID, Scopes: tenant.Invoke}, ""},
				"asserts both": {tenant.Credentials{Credential: ofBoth, User: "ann", Agent: "bot"},
					tenant.Identity{Tenant: "globex", User: "ann", Agent: "bot", Key: both.ID,
						Scopes: tenant.Read | tenant.Admin, Asserts: tenant.User | tenant.Agent}, ""},
				"asserts the agent": {tenant.Credentials{Credential: ofAgent, User: "ann", Agent: "bot"},
					tenant.Identity{Tenant: "globex", Agent: "bot", Key: agent.ID, Scopes: tenant.Invoke,
						Asserts: tenant.Agent}, ""},
				"asserts too much": {tenant.Credentials{Credential: ofBoth, User: long, Agent: ""},
					tenant.Identity{Tenant: "globex", Key: both.ID}, "IDENTITY_INVALID"},
				"expired": {tenant.Credentials{Credential: ofLate, User: "", Agent: ""},
					tenant.Identity{Tenant: "acme", Key: late.ID, Scopes: tenant.Invoke}, "CREDENTIAL_EXPIRED"},
				"expires soon": {tenant.Credentials{Credential: ofSoon, User: "", Agent: ""},
					tenant.Identity{Tenant: "acme", Key: soon.ID, Scopes: tenant.Invoke}, ""},
				"no pepper": {tenant.Credentials{Credential: ofOld, User: "", Agent: ""},
					tenant.Identity{Tenant: "acme", Key: old.ID, Scopes: tenant.Invoke}, ""},
			} {
				for range 2 { // first by its hash, then from the cache
					if got, _, refusal := keys.Lookup(test.claim); got != test.want ||
						reasonOf(refusal) != test.reason {
						t.Errorf("%s: %+v, %v", what, got, refusal)
					}
				}
			}
		})
	}
}

// TestForgedKeys: only the exact key is accepted, before and after the first use of the real one.
func TestForgedKeys(t *testing.T) {
	t.Parallel()
	key, good := issue("acme", nil, nil)
	other, ofOther := issue("globex", nil, nil)
	keys := keysOf(nil, key, other)
	id, secret, _ := tenant.ParseCredential(good)
	_, othersSecret, _ := tenant.ParseCredential(ofOther)
	stranger, itsSecret := tenant.NewCredential()
	flipped := []byte(good)
	if flipped[len(flipped)-1]++; flipped[len(flipped)-1] > 'z' || flipped[len(flipped)-1] == '8' {
		flipped[len(flipped)-1] = 'a'
	}
	forged := []string{
		"", "cg_", "cg_" + id, "cg_" + id + "_", good[:len(good)-1], good + "a", " " + good, good +
			"\n", strings.ToUpper(good), "CG" + good[2:],
		"xx" + good[2:], good[3:], string(flipped), tenant.Credential(id, othersSecret),
		tenant.Credential(stranger, secret), tenant.Credential(stranger, itsSecret),
		tenant.Credential(id, strings.Repeat("a", 32)), tenant.Credential(id, strings.Repeat("\x00", 32)),
		strings.Replace(good, "_", "-", 2), tenant.Credential(id, key.Hash.String()),
		tenant.Credential(id, key.Hash.String()[7:39]),
		strings.Repeat("cg_", 1000), "\xff" + good[1:], "Bearer " + good,
	}
	for round := range 2 {
		for _, f := range forged {
			if who, _, refusal := keys.Lookup(tenant.Credentials{Credential: f}); reasonOf(
				refusal) != "CREDENTIAL_INVALID" || who != (tenant.Identity{}) {
				t.Errorf("round %d: %q: %+v, %v", round, f, who, refusal)
			} else if strings.Contains(refusal.Message, secret) {
				t.Errorf("the refusal tells the secret")
			}
		}
		if who, _, refusal := keys.Lookup(tenant.Credentials{Credential: good}); refusal != nil ||
			who.Tenant != "acme" {
			t.Errorf("the real one: %+v, %v", who, refusal)
		}
	}
	for n := range 4096 { // some of these have a digest that begins like that of the real one, which is remembered
		digits := fmt.Sprintf("%032b", n)
		guess := tenant.Credential(id, strings.NewReplacer("0", "a", "1", "b").Replace(digits))
		if _, _, refusal := keys.Lookup(tenant.Credentials{Credential: guess}); reasonOf(
			refusal) != "CREDENTIAL_INVALID" {
			t.Fatalf("%q: %v", guess, refusal)
		}
	}
}

// TestReplacedKeys: a removed key is rejected although it was cached, and so is one with another secret now.
func TestReplacedKeys(t *testing.T) {
	t.Parallel()
	pepper := peppers["with one"]
	key, good := issue("acme", pepper, nil)
	keys := keysOf(pepper, key)
	check := func(what, reason string) {
		t.Helper()
		if _, _, refusal := keys.Lookup(tenant.Credentials{Credential: good}); reasonOf(refusal) != reason {
			t.Errorf("%s: %v", what, refusal)
		}
	}
	check("good", "")
	rotated := key
	rotated.Hash = tenant.HashOf(strings.Repeat("b", 32), pepper)
	for _, step := range []struct {
		what, reason string
		keys         []tenant.Key
		pepper       []byte
	}{
		{"rotated", "CREDENTIAL_INVALID", []tenant.Key{rotated}, pepper},
		{"back", "", []tenant.Key{key}, pepper},
		{"another pepper", "CREDENTIAL_INVALID", []tenant.Key{key}, []byte("another pepper, as long")},
		{"no pepper", "CREDENTIAL_INVALID", []tenant.Key{key}, nil},
		{"revoked", "CREDENTIAL_INVALID", nil, pepper},
	} {
		keys.Replace(step.keys, nil, step.pepper)
		check(step.what, step.reason)
	}
}

// TestAKnownKeyCostsNothing: cached keys and malformed ones cause no allocation.
func TestAKnownKeyCostsNothing(t *testing.T) {
	for name, pepper := range peppers {
		key, good := issue("acme", pepper, func(k *tenant.Key) {
			k.Asserts = tenant.User
			k.Expires = epoch.Add(time.Hour)
		})
		keys := keysOf(pepper, key)
		for _, credential := range []string{good, "garbled"} {
			if n := testing.AllocsPerRun(100,
				func() { _, _, _ = keys.Lookup(tenant.Credentials{Credential: credential, User: "ann"}) }); n != 0 {
				t.Errorf("%s: %v allocations for %.3s", name, n, credential)
			}
		}
	}
}

func BenchmarkIdentify(b *testing.B) {
	pepper := peppers["with one"]
	key, good := issue("acme", pepper, func(k *tenant.Key) { k.Asserts = tenant.User })
	all := make([]tenant.Key, 0, 10_001)
	for range 10_000 {
		k, _ := issue("other", pepper, nil)
		all = append(all, k)
	}
	keys := keysOf(pepper, append(all, key)...)
	id, _, _ := tenant.ParseCredential(good)
	for name, credential := range map[string]string{"known": good,
		"wrong secret": tenant.Credential(id, strings.Repeat("a", 32)),
		"unknown":      tenant.Credential(strings.Repeat("a", 16), strings.Repeat("a", 32))} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				_, _, _ = keys.Lookup(tenant.Credentials{Credential: credential, User: "ann"})
			}
		})
	}
}
