package affinity

import (
	"context"
	"strings"
	"time"

	"github.com/capgate/capgate/router"
)

// held is what is known of an artifact.
type held struct {
	addr  string // of the backend that has it; "": nobody knows
	until time.Time
}

const (
	// MaxID is the longest id of an artifact that is remembered, in bytes.
	MaxID = 512
	// unknownFor is how long the store is not asked again for an artifact that it does not know.
	unknownFor = time.Second
	// maxHoldings is how many artifacts may wait for the store.
	maxHoldings = 4096
)

// patience is when the store is asked for an artifact, since the first time: it was
// given out a moment ago by another gateway, perhaps, which tells the store beside
// the call.
var patience = [...]time.Duration{0, 10 * time.Millisecond, 30 * time.Millisecond, 70 * time.Millisecond}

// Learn remembers that a backend gave out an artifact's id. sure says that it was given
// the artifact just now; otherwise what was known before goes before. It does not
// block, and keeps none of the strings.
func (k *Keeper) Learn(f *router.Fleet, tenant, id string, b *router.Backend, sure bool) {
	if id == "" || len(id) > MaxID {
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	now := time.Now()
	a := Artifact{tenant, f.Capability, id}
	if before, ok := k.artifacts.Get(a); ok && before.addr != "" && now.Before(before.until) && (before.addr == b.Addr || !sure) {
		return
	}
	ttl := f.Affinity().ArtifactTTL
	a.Tenant, a.ID = strings.Clone(tenant), strings.Clone(id)
	k.artifacts.Add(a, held{b.Addr, now.Add(ttl)})
	if k.store == nil || k.closed {
		return
	}
	if len(k.holdings) >= maxHoldings {
		k.dropped.Add(1)
		return
	}
	k.holdings = append(k.holdings, Holding{Artifact: a, Addr: b.Addr, Sure: sure, TTL: ttl})
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
		if !ok || now.After(h.until) {
			known = known && len(id) > MaxID
			continue
		}
		if b := q.Fleet.Backend(h.addr); b != nil && b != q.Tried && b.Alive() && (b.Session == "" || q.Session == "" || b.Session == q.Session) {
			return b, true
		}
	}
	return nil, known
}

// lookUp asks the store for the call's artifacts that memory does not know.
func (k *Keeper) lookUp(ctx context.Context, q *Query) error {
	began := time.Now()
	for i, at := range patience {
		select {
		case <-time.After(time.Until(began.Add(at))):
		case <-ctx.Done():
			return nil // the store did answer: nobody knows
		}
		for _, id := range q.Artifacts {
			a := Artifact{q.Tenant, q.Fleet.Capability, id}
			if k.knows(a) {
				continue
			}
			k.lookups.Add(1)
			addr, err := k.store.Holder(ctx, a)
			if err != nil {
				return err
			}
			k.note(q.Fleet, a, addr, i == len(patience)-1)
		}
		k.mu.Lock()
		_, known := k.holder(q, time.Now())
		k.mu.Unlock()
		if known {
			break
		}
	}
	return nil
}

func (k *Keeper) knows(a Artifact) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	h, ok := k.artifacts.Peek(a)
	return ok && time.Now().Before(h.until) || len(a.ID) > MaxID
}

// note puts into memory what the store says; that it knows nothing only at last.
func (k *Keeper) note(f *router.Fleet, a Artifact, addr string, last bool) {
	if addr == "" && !last {
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	h := held{addr, time.Now().Add(unknownFor)}
	if addr != "" {
		h.until = time.Now().Add(f.Affinity().ArtifactTTL / 2)
	}
	if now, ok := k.artifacts.Peek(a); !ok || now.addr == "" || time.Now().After(now.until) {
		k.artifacts.Add(a, h)
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
	err := k.store.Remember(ctx, some)
	if err == nil {
		return true
	}
	k.cfg.Log.Debug("artifacts not remembered", "artifacts", n, "error", err)
	k.mu.Lock()
	defer k.mu.Unlock()
	if room := maxHoldings - len(k.holdings); room < n {
		k.dropped.Add(int64(n - room))
		some = some[n-room:]
	}
	k.holdings = append(some, k.holdings...)
	return false
}
