package affinity

import (
	"time"

	"github.com/capgate/capgate/internal/call"
)

// mustKnow is the factor by which an OwnedOnly call waits longer for the store than other calls:
// without the store's answer it is rejected.
const mustKnow = 10

var (
	refusedUnknown = &call.Refusal{Kind: call.NotFound, Reason: "ARTIFACT_UNKNOWN",
		Message: "there is no artifact with this id: it was never uploaded or returned by a tool, or has expired"}
	refusedUntold = &call.Refusal{Kind: call.Unavailable, Reason: "ARTIFACTS_UNAVAILABLE", RetryAfter: time.Second,
		Message: "the store that knows the owners of artifacts is unavailable at the moment; retry later"}
)

// missing rejects an OwnedOnly call that names an artifact its tenant does not own. The refusal is the
// same for another tenant's artifact and for one that does not exist: only the tenant's own artifacts
// are looked up. The caller holds mu.
func (k *Keeper) missing(q *Query, now time.Time) *call.Refusal {
	if !q.Bound {
		return nil
	}
	for _, id := range q.Artifacts {
		h, ok := k.artifacts.Peek(Artifact{q.Tenant, q.Fleet.Capability, id})
		switch known := ok && !now.After(h.until) && !h.claimed; {
		case known && h.addr != "":
		case known, q.asked, k.store == nil, len(id) > MaxID:
			return refusedUnknown
		default:
			return refusedUntold
		}
	}
	return nil
}

// settleClaims applies the store's verdict on which of the stored artifacts belong to the tenants
// that they were named to.
func (k *Keeper) settleClaims(told []Holding, kept []bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for i := range told {
		h, ok := k.artifacts.Peek(told[i].Artifact)
		if !ok || !h.claimed {
			continue
		}
		if h.claimed = false; !kept[i] {
			h = held{until: time.Now().Add(unknownFor)}
		}
		k.artifacts.Add(told[i].Artifact.Tenant, told[i].Artifact, h)
	}
}
