package affinity

import (
	"context"
	"strings"
	"sync/atomic"
	"time"

	"github.com/capgate/capgate/router"
)

// held is the cached location of an artifact.
type held struct {
	addr  string // of the backend that has it; "": unknown
	until time.Time

	// claimed says that a backend named the artifact to the tenant, but the store has not said yet
	// whether it belongs to another one.
	claimed bool
}

const (
	// MaxID is the longest id of a tracked artifact, in bytes.
	MaxID = 512
	// unknownFor is how long a negative entry is valid.
	unknownFor = time.Second
	// maxHoldings bounds the artifacts of all tenants that wait to be stored.
	maxHoldings = 4096
)

// patience holds the delays of the lookups of one artifact, since the first. Another gateway may
// have seen the artifact a moment ago; it updates the store beside its call.
var patience = [...]time.Duration{0, 10 * time.Millisecond, 30 * time.Millisecond, 70 * time.Millisecond}

// Mention is an artifact's id in a backend's answer.
type Mention struct {
	Fleet   *router.Fleet
	Tenant  string
	ID      string
	Backend *router.Backend
	Sure    bool // this very call gave the artifact to the backend
	Bound   bool // tenants may name only artifacts that they uploaded or were given
}

// Learn caches a mention. If the mention is not Sure, existing knowledge has precedence. Learn does
// not block, and keeps none of the strings.
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

// holder returns the live backend that has an artifact of the call, according to memory; nil if
// none has. known is false while the store may know more. The caller holds mu.
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

// at returns the backend with an address, or nil if the call must not go there.
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

// lookUp queries the store for the call's artifacts that are not cached. asked is set once the
// store has answered for all of them.
func (k *Keeper) lookUp(ctx context.Context, q *Query, asked *atomic.Bool) error {
	began := time.Now()
	for i, at := range patience {
		select {
		case <-time.After(time.Until(began.Add(at))):
		case <-ctx.Done():
			return nil // the store has answered: the artifact is unknown
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

// knows reports whether an artifact needs no lookup.
func (k *Keeper) knows(a Artifact, bound bool) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	h, ok := k.artifacts.Peek(a)
	return ok && time.Now().Before(h.until) && !(bound && h.claimed) || len(a.ID) > MaxID
}

// note caches the store's answer. A negative answer counts only at the last lookup.
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

// storeLoop stores artifacts as soon as they are learned, until ctx ends.
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

// storeBatch stores one batch, and reports whether to continue.
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
	k.cfg.Log.Debug("could not store the backends of artifacts", "artifacts", n, "error", err)
	k.mu.Lock()
	defer k.mu.Unlock()
	k.holdings = append(some, k.holdings...)
	return false
}

// settled releases the pending entries of stored artifacts.
func (k *Keeper) settled(some []Holding) {
	for i := range some {
		k.claims.Of(some[i].Artifact.Tenant).Release(1)
	}
}
