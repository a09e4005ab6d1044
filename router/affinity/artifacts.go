package affinity

import (
	"context"
	"strings"
	"sync/atomic"
	"time"

	"github.com/capgate/capgate/router"
)

// held is what is known of an artifact.
type held struct {
	addr  string // of the backend that has it; "": nobody knows
	until time.Time

	claimed bool // a backend told the tenant of it; the store has not said yet whether it is another's
}

const (
	// MaxID is the longest id of an artifact that is remembered, in bytes.
	MaxID = 512
	// unknownFor is how long the store is not asked again for an artifact that it does not know.
	unknownFor = time.Second
	// maxHoldings is how many artifacts may wait for the store, of all tenants.
	maxHoldings = 4096
)

// patience is when the store is asked for an artifact, since the first time: it was
// given out a moment ago by another gateway, perhaps, which tells the store beside
// the call.
var patience = [...]time.Duration{0, 10 * time.Millisecond, 30 * time.Millisecond, 70 * time.Millisecond}

// Mention is an artifact's id in what a backend answered.
type Mention struct {
	Fleet   *router.Fleet
	Tenant  string
	ID      string
	Backend *router.Backend
	Sure    bool // the backend was given the artifact by this very call
	Bound   bool // it is only there for tenants who uploaded it or were told of it
}

// Learn remembers a mention. Of one that is not sure, what was known before goes before
// it. It does not block, and keeps none of the strings.
func (k *Keeper) Learn(m Mention) {
	if m.ID == "" || len(m.ID) > MaxID {
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	now := time.Now()
	a := Artifact{m.Tenant, m.Fleet.Capability, m.ID}
	if before, ok := k.artifacts.Get(a); ok && before.addr != "" && now.Before(before.until) && (before.addr == m.Backend.Addr && !before.claimed || !m.Sure) {
		return
	}
	ttl := m.Fleet.Affinity().ArtifactTTL
	a.Tenant, a.ID = strings.Clone(m.Tenant), strings.Clone(m.ID)
	k.artifacts.Add(a.Tenant, a, held{addr: m.Backend.Addr, until: now.Add(ttl), claimed: m.Bound && !m.Sure && k.store != nil})
	if k.store == nil || k.closed {
		return
	}
	if !k.claims.Of(a.Tenant).Reserve(1) {
		k.dropped.Add(1)
		return
	}
	k.holdings = append(k.holdings, Holding{Artifact: a, Addr: m.Backend.Addr, Sure: m.Sure, Bound: m.Bound, TTL: ttl})
	select {
	case k.told <- struct{}{}:
	default:
	}
}

// holder is the living backend that has an artifact of the call, as far as memory
// says; nil if none has. It is not known while the store may say more. The caller
// holds mu.
func (k *Keeper) holder(q *Query, now time.Time) (b *router.Backend, known bool) {
	known = true
	for _, id := range q.Artifacts {
		h, ok := k.artifacts.Get(Artifact{q.Tenant, q.Fleet.Capability, id})
		if !ok || now.After(h.until) || q.Bound && h.claimed {
			known = known && len(id) > MaxID
			continue
		}
		if b == nil && q.Fleet.Tracks() {
			b = q.at(h.addr)
		}
		if b != nil && !q.Bound {
			return b, true
		}
	}
	return b, known
}

// at is the backend with an address, if the call may go there; else nil.
func (q *Query) at(addr string) *router.Backend {
	b := q.Fleet.Backend(addr)
	switch {
	case b == nil, b == q.Tried, !b.Alive():
		return nil
	case b.Session != "" && (b.Tenant != q.Tenant || q.Session != "" && b.Session != q.Session):
		return nil
	}
	return b
}

// lookUp asks the store for the call's artifacts that memory does not know. asked is true
// once the store has answered for all of them.
func (k *Keeper) lookUp(ctx context.Context, q *Query, asked *atomic.Bool) error {
	began := time.Now()
	for i, at := range patience {
		select {
		case <-time.After(time.Until(began.Add(at))):
		case <-ctx.Done():
			return nil // the store did answer: nobody knows
		}
		for _, id := range q.Artifacts {
			a := Artifact{q.Tenant, q.Fleet.Capability, id}
			if k.knows(a, q.Bound) {
				continue
			}
			k.lookups.Add(1)
			addr, err := k.store.Holder(ctx, a)
			if err != nil {
				return err
			}
			k.note(q.Fleet, a, addr, i == len(patience)-1)
		}
		asked.Store(true)
		k.mu.Lock()
		_, known := k.holder(q, time.Now())
		k.mu.Unlock()
		if known {
			break
		}
	}
	return nil
}

func (k *Keeper) knows(a Artifact, bound bool) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	h, ok := k.artifacts.Peek(a)
	return ok && time.Now().Before(h.until) && !(bound && h.claimed) || len(a.ID) > MaxID
}

// note puts into memory what the store says; that it knows nothing only at last.
func (k *Keeper) note(f *router.Fleet, a Artifact, addr string, last bool) {
	if addr == "" && !last {
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	h := held{addr: addr, until: time.Now().Add(unknownFor)}
	if addr != "" {
		h.until = time.Now().Add(f.Affinity().ArtifactTTL / 2)
	}
	if now, ok := k.artifacts.Peek(a); !ok || now.addr == "" || now.claimed && addr != "" || time.Now().After(now.until) {
		k.artifacts.Add(a.Tenant, a, h)
	}
}

// rememberTold tells the store of artifacts as soon as they are there, until ctx ends.
func (k *Keeper) rememberTold(ctx context.Context) {
	again := time.NewTicker(k.cfg.Every)
	defer again.Stop()
	for {
		select {
		case <-k.told:
		case <-again.C:
		case <-ctx.Done():
			return
		}
		for ctx.Err() == nil && !k.store.Away() && k.remember(ctx) {
		}
	}
}

// remember tells the store of a batch, and says whether to go on.
func (k *Keeper) remember(ctx context.Context) bool {
	k.mu.Lock()
	n := min(len(k.holdings), batch)
	some := append([]Holding(nil), k.holdings[:n]...)
	k.holdings = append(k.holdings[:0], k.holdings[n:]...)
	k.mu.Unlock()
	if n == 0 {
		return false
	}
	ctx, cancel := context.WithTimeout(ctx, tellTimeout)
	defer cancel()
	kept, err := k.store.Remember(ctx, some)
	if err == nil {
		k.settleClaims(some, kept)
		k.settled(some)
		return true
	}
	k.cfg.Log.Debug("artifacts not remembered", "artifacts", n, "error", err)
	k.mu.Lock()
	defer k.mu.Unlock()
	k.holdings = append(some, k.holdings...)
	return false
}

// settled makes room for further claims.
func (k *Keeper) settled(some []Holding) {
	for i := range some {
		k.claims.Of(some[i].Artifact.Tenant).Release(1)
	}
}
