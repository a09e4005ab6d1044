package affinity

import (
	"context"
	"strings"
	"sync/atomic"
	"time"

	"github.com/capgate/capgate/internal/lib/backoff"
	"github.com/capgate/capgate/internal/lib/signal"
	"github.com/capgate/capgate/router"
)

// cacheEntry is the cached location of an artifact.
type cacheEntry struct {
	addr  string // of the backend that has it; "": unknown
	until time.Time

	// unconfirmed says that a backend named the artifact to the tenant, but the store has not said yet
	// whether it belongs to another one.
	unconfirmed bool
}

const (
	// MaxID is the longest id of a tracked artifact, in bytes.
	MaxID = 512
	// unknownFor is the time for which a negative entry is valid.
	unknownFor = time.Second
	// maxPending bounds the artifacts of all tenants that wait to be stored.
	maxPending = 4096
)

// lookupDelays holds the delays of the lookups of one artifact, since the first. Another gateway may
// have seen the artifact a moment ago; it updates the store beside its call. The last ones are only for calls
// that are rejected if the artifact stays unknown.
var lookupDelays = [...]time.Duration{0, 10 * time.Millisecond, 30 * time.Millisecond, 70 * time.Millisecond,
	150 * time.Millisecond, 300 * time.Millisecond}

// unownedLookups is the number of lookups for other calls.
const unownedLookups = 4

// Mention is an artifact's id in a backend's answer.
type Mention struct {
	Fleet         *router.Fleet
	Tenant        string
	UID           string // of the tenant, as in Query
	ID            string
	Backend       *router.Backend
	Authoritative bool // this very call gave the artifact to the backend
	OwnedOnly     bool // tenants may name only artifacts that they uploaded or were given
}

// Learn caches a mention. If the mention is not Sure, existing knowledge has precedence. Learn does
// not block, and keeps none of the strings.
func (r *Resolver) Learn(m Mention) {
	if m.ID == "" || len(m.ID) > MaxID {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	now := time.Now()
	a := Artifact{m.Tenant, m.UID, m.Fleet.Capability, m.ID}
	if before, ok := r.artifacts.Get(a); ok && before.addr != "" && now.Before(before.until) &&
		(before.addr == m.Backend.Addr && !before.unconfirmed || !m.Authoritative) {
		return
	}
	ttl := m.Fleet.Affinity().ArtifactTTL
	a.Tenant, a.UID, a.ID = strings.Clone(m.Tenant), strings.Clone(m.UID), strings.Clone(m.ID)
	r.artifacts.Add(a.Tenant, a, cacheEntry{
		addr: m.Backend.Addr, until: now.Add(ttl), unconfirmed: m.OwnedOnly && !m.Authoritative && r.store != nil,
	})
	if r.store == nil || r.closed {
		return
	}
	if !r.pendingShare.Of(a.Tenant).Reserve(1) {
		r.dropped.Add(1)
		return
	}
	r.pending = append(r.pending, Location{
		Artifact: a, Addr: m.Backend.Addr, Authoritative: m.Authoritative, OwnedOnly: m.OwnedOnly, TTL: ttl,
	})
	signal.Wake(r.pendingReady)
}

// artifactBackend returns the live backend that has an artifact of the call, according to memory; nil if
// none has. known is false while the store may know more. The caller holds mu.
func (r *Resolver) artifactBackend(q *Query, now time.Time) (b *router.Backend, known bool) {
	known = true
	for _, id := range q.Artifacts {
		h, ok := r.artifacts.Get(q.artifact(id))
		if !ok || now.After(h.until) || q.OwnedOnly && h.unconfirmed {
			known = known && len(id) > MaxID
			continue
		}
		if b == nil && q.Fleet.TracksArtifacts() {
			b = q.backendAt(h.addr)
		}
		if b != nil && !q.OwnedOnly {
			return b, true
		}
	}
	return b, known
}

// backendAt returns the backend with an address, or nil if the call must not go there.
func (q *Query) backendAt(addr string) *router.Backend {
	b := q.Fleet.Backend(addr)
	switch {
	case b == nil, b == q.Tried, !b.Alive():
		return nil
	case b.Session != "" && (b.Tenant != q.Tenant || q.Session != "" && b.Session != q.Session):
		return nil
	}
	return b
}

// lookUpArtifacts queries the store for the call's artifacts that are not cached. It sets
// asked once the store has answered for all of them.
func (r *Resolver) lookUpArtifacts(ctx context.Context, q *Query, asked *atomic.Bool) error {
	began, delays := time.Now(), lookupDelays[:]
	if !q.OwnedOnly {
		delays = delays[:unownedLookups]
	}
	for i, at := range delays {
		if !backoff.Sleep(ctx, time.Until(began.Add(at))) {
			return nil // the store has answered: the artifact is unknown
		}
		for _, id := range q.Artifacts {
			a := q.artifact(id)
			if r.cached(a, q.OwnedOnly) {
				continue
			}
			r.lookups.Add(1)
			addr, err := r.store.Locate(ctx, a)
			if err != nil {
				return err
			}
			r.cacheLocation(q.Fleet, a, addr, i == len(delays)-1)
		}
		asked.Store(true)
		r.mu.Lock()
		_, known := r.artifactBackend(q, time.Now())
		r.mu.Unlock()
		if known {
			break
		}
	}
	return nil
}

// cached reports whether an artifact needs no lookup.
func (r *Resolver) cached(a Artifact, bound bool) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	h, ok := r.artifacts.Peek(a)
	return ok && time.Now().Before(h.until) && !(bound && h.unconfirmed) || len(a.ID) > MaxID
}

// cacheLocation caches the store's answer. A negative answer counts only at the last lookup.
func (r *Resolver) cacheLocation(f *router.Fleet, a Artifact, addr string, last bool) {
	if addr == "" && !last {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	h := cacheEntry{addr: addr, until: time.Now().Add(unknownFor)}
	if addr != "" {
		h.until = time.Now().Add(f.Affinity().ArtifactTTL / 2)
	}
	if now, ok := r.artifacts.Peek(a); !ok || now.addr == "" || now.unconfirmed && addr != "" ||
		time.Now().After(now.until) {
		r.artifacts.Add(a.Tenant, a, h)
	}
}

// storeLoop stores artifacts as soon as they are learned, until ctx ends. What waits then is still stored: the callers
// have the ids, and ask other replicas next.
func (r *Resolver) storeLoop(ctx context.Context) {
	for ctx.Err() == nil {
		r.storeAll(ctx)
		signal.Wait(ctx, r.pendingReady, r.cfg.Every)
	}
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), batchTimeout)
	defer cancel()
	r.storeAll(last)
}

// storeAll stores what waits, until ctx ends or the store fails.
func (r *Resolver) storeAll(ctx context.Context) {
	for ctx.Err() == nil && !r.store.Unavailable() && r.storeBatch(ctx) {
	}
}

// storeBatch stores one batch, and reports whether to continue.
func (r *Resolver) storeBatch(ctx context.Context) bool {
	r.mu.Lock()
	n := min(len(r.pending), batch)
	locations := append([]Location(nil), r.pending[:n]...)
	r.pending = append(r.pending[:0], r.pending[n:]...)
	r.mu.Unlock()
	if n == 0 {
		return false
	}
	ctx, cancel := context.WithTimeout(ctx, batchTimeout)
	defer cancel()
	owned, err := r.store.StoreLocations(ctx, locations)
	if err == nil {
		r.applyOwnership(locations, owned)
		r.releasePending(locations)
		return true
	}
	r.cfg.Log.Debug("could not store the backends of artifacts", "artifacts", n, "error", err)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.pending = append(locations, r.pending...)
	return false
}

// releasePending releases the pending entries of stored artifacts.
func (r *Resolver) releasePending(locations []Location) {
	for i := range locations {
		r.pendingShare.Of(locations[i].Artifact.Tenant).Release(1)
	}
}
