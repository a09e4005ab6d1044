package sim_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/capgate/capgate/internal/lib/sharedkey"
	"github.com/capgate/capgate/internal/redisstore"
	"github.com/capgate/capgate/internal/tenant"
	"github.com/capgate/capgate/internal/testkit/sim"
)

// TestKeys: under all faults of replicas, a revoked key is invalid at every replica that claims to know of the change,
// unless Redis does not respond to the call. Without faults, this takes at most a second. The same holds for URLs
// signed for the key.
//
// Every run reaches its end, where the promise is checked.
func TestKeys(t *testing.T) {
	runs, ended := 0, 0
	check(t, func(w *sim.Simulation) {
		runs++
		if playKeysOf(w).ended {
			ended++
		}
	})
	if ended < runs {
		t.Errorf("the ends of %d of %d runs were checked", ended, runs)
	}
}

// withinASecond is the longest time until a replica learns of a change, as docs/run/identity.md promises.
const withinASecond = time.Second

// keyring holds a replica's tenants, keys and signed URLs.
type keyring struct {
	store  *redisstore.Store
	redis  *redisstore.Tenants
	stored *tenant.Stored
	signed *tenant.Signatures
}

// keysRun is a run of an operator, which creates and revokes keys, and of callers with these keys.
type keysRun struct {
	*cluster[*keyring]

	ended bool // finally has run

	mu   sync.Mutex
	keys []*issued
}

// issued is a key and a URL signed for it.
type issued struct {
	tenant.Credentials

	id      string
	url     tenant.Credentials
	revoked time.Duration // time at which the operator knew of the revocation; 0 if not yet
}

func playKeys(w *sim.Simulation) { playKeysOf(w) }

func playKeysOf(w *sim.Simulation) *keysRun {
	p := &keysRun{}
	p.cluster = newCluster(w, 3,
		func(_ context.Context, s *redisstore.Store, _ string) (*keyring, func(context.Context)) {
			// A cache this small has one part. In a larger cache, random hashes would decide which other keys a change
			// affects.
			stored := tenant.NewStored(s.Tenants(), tenant.Options{TTL: time.Hour, Entries: 1000})
			all := tenant.NewAuthenticators(tenant.Sources{File: tenant.NewKeys(nil), Stored: stored})
			return &keyring{s, s.Tenants(), stored, tenant.NewSignatures(stored.Directory(), all,
					sharedkey.New(s.Secret(), nil).Keys("urls"), nil)},
				stored.Watch
		})
	p.copies(20)
	w.Faults = func() (all []sim.Event) {
		for _, r := range p.replicas {
			all = append(all, r.faults()...)
		}
		return all
	}
	w.Go("operator", p.operator)
	for i := range 2 {
		w.Go(fmt.Sprintf("caller%d", i), p.caller)
	}
	w.Chaos(400)
	w.Settle(time.Minute)
	w.Go("finally", p.finally)
	w.Settle(time.Minute)
	p.end()
	return p
}

// operator creates keys and later revokes each of them.
func (p *keysRun) operator(a *sim.Actor) {
	for range 3 {
		k := p.create(a)
		if k == nil || !a.Pause(p.ctx, time.Second) || !p.revoke(a, k) {
			return
		}
	}
}

// create creates a key at one replica and signs a URL for it at another. It returns nil at the end of the run.
func (p *keysRun) create(a *sim.Actor) *issued {
	id, secret := tenant.NewCredential()
	k := &issued{Credentials: tenant.Credentials{Credential: tenant.Credential(id, secret)}, id: id}
	record := &tenant.Key{ID: id, Tenant: "acme", Hash: tenant.HashOf(secret, nil), Scopes: tenant.Invoke}
	grant := tenant.SignedGrant{Download: tenant.Download{Capability: "caps", Artifact: "a"}, Tenant: "acme", Key: id,
		Expires: time.Now().Add(time.Hour)}
	acme := &tenant.Record{UID: "uid", ID: "acme"}
	record.UID = acme.UID
	if !p.until(a, "creates a tenant", func(ctx context.Context, r *keyring) bool {
		if held, err := r.redis.FindTenant(ctx, acme.ID); err != nil || held != nil {
			return err == nil
		}
		return r.redis.CreateTenant(ctx, acme) == nil
	}) || !p.until(a, "creates a key", func(ctx context.Context, r *keyring) bool {
		if held, err := r.redis.FindKey(ctx, id); err != nil || held != nil {
			return err == nil
		}
		return r.redis.CreateKey(ctx, record) == nil
	}) || !p.until(a, "signs a URL", func(ctx context.Context, r *keyring) bool {
		text, refusal := r.signed.Sign(ctx, grant)
		k.url.Signature = text
		return refusal == nil
	}) {
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.keys = append(p.keys, k)
	return k
}

// revoke revokes a key, and retries until a replica confirms it.
func (p *keysRun) revoke(a *sim.Actor, k *issued) bool {
	if !p.until(a, "revokes a key", func(ctx context.Context, r *keyring) bool {
		return r.redis.RevokeKey(ctx, "acme", k.id) == nil
	}) {
		return false
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	k.revoked = p.Now()
	return true
}

// until tries an operation at random replicas until it succeeds. It returns false at the end of the run.
func (p *keysRun) until(a *sim.Actor, what string, do func(ctx context.Context, r *keyring) bool) bool {
	for p.turn(a, what) {
		done := false
		p.at(a, p.some(a), what, time.Minute, func(ctx context.Context, r *keyring) { done = do(ctx, r) })
		if done || !a.Pause(p.ctx, 500*time.Millisecond) {
			return done
		}
	}
	return false
}

// caller uses keys and URLs signed for them, at all replicas.
func (p *keysRun) caller(a *sim.Actor) {
	for range 15 {
		if !p.turn(a, "calls") {
			return
		}
		p.mu.Lock()
		keys := p.keys
		p.mu.Unlock()
		if len(keys) > 0 {
			p.call(a, p.some(a), keys[a.IntN(len(keys))])
		}
		a.Pause(p.ctx, 300*time.Millisecond)
	}
}

// call uses a key and its URL at a replica. It fails the run if either is valid although the replica knows of the
// revocation.
func (p *keysRun) call(a *sim.Actor, r *replica[*keyring], k *issued) (valid bool) {
	p.at(a, r, "a call", callLimit, func(ctx context.Context, ring *keyring) {
		for what, uses := range p.uses(ring, k) {
			known, failed := p.Now()-ring.stored.Stats().Age, ring.store.Stats().Errors
			p.mu.Lock()
			revoked := k.revoked
			p.mu.Unlock()
			if !uses(ctx) {
				continue
			}
			valid = true
			if answered := ring.store.Stats().Errors == failed; answered && revoked > 0 && revoked < known {
				p.Fail("%s is valid at %s, which knows all changes until %v; the key was revoked at %v", what, r.name,
					known,
					revoked)
			}
		}
	})
	return valid
}

// uses returns the possible uses of a key, in a fixed order. Each reports whether it was accepted.
func (*keysRun) uses(r *keyring, k *issued) func(yield func(string, func(context.Context) bool) bool) {
	accepts := func(s tenant.Authenticator, c tenant.Credentials) func(context.Context) bool {
		return func(ctx context.Context) bool {
			_, known, refusal := s.Lookup(c)
			if !known {
				_, refusal = s.Authenticate(ctx, c)
			}
			return refusal == nil
		}
	}
	return func(yield func(string, func(context.Context) bool) bool) {
		if yield("a revoked key", accepts(r.stored, k.Credentials)) {
			yield("a URL of a revoked key", accepts(r.signed, k.url))
		}
	}
}

// finally checks the promise: after the faults, a revoked key is invalid at every replica within a second, even if a
// connection was lost just before.
func (p *keysRun) finally(a *sim.Actor) {
	if p.ended = p.secondAfterRevocation(a); !p.ended {
		p.Fail("the run ends before its end is checked")
	}
}

// secondAfterRevocation returns false if the run ends before the check.
func (p *keysRun) secondAfterRevocation(a *sim.Actor) (checked bool) {
	if !a.TurnWhen(p.ctx, "begins", func() bool { return len(p.up()) == len(p.replicas) }) {
		return false
	}
	for !p.caughtUp() {
		if !a.Pause(p.ctx, time.Second) {
			return false
		}
	}
	k := p.create(a)
	if k == nil {
		return false
	}
	for _, r := range p.replicas {
		if !p.call(a, r, k) {
			p.Fail("a key is invalid at %s", r.name)
		}
	}
	if p.Seed%2 == 0 {
		p.replicas[a.IntN(len(p.replicas))].site.ResetOne(a.Uint64())
	}
	if !p.revoke(a, k) {
		return false
	}
	for ends := k.revoked + withinASecond; p.Now() <= ends; {
		if !a.Pause(p.ctx, 50*time.Millisecond) {
			return false
		}
	}
	for _, r := range p.replicas {
		if p.call(a, r, k) {
			p.Fail("a key is valid at %s, %v after it was revoked", r.name, p.Now()-k.revoked)
		}
	}
	return true
}

// caughtUp reports whether every replica has received a response of Redis in the last second.
func (p *keysRun) caughtUp() bool {
	for _, r := range p.replicas {
		if l := r.now(); l == nil || l.part.stored.Stats().Age > withinASecond {
			return false
		}
	}
	return true
}
