package affinity

import (
	"time"

	"github.com/capgate/capgate/internal/call"
)

// ownedWaitFactor is the factor by which an OwnedOnly call waits longer for the store than other calls:
// without the store's answer it is rejected.
const ownedWaitFactor = 10

var (
	refusedUnknown = &call.Refusal{Kind: call.NotFound, Reason: "ARTIFACT_UNKNOWN",
		Message: "there is no artifact with this id: it was never uploaded or returned by a tool, or has expired"}
	refusedUnavailable = &call.Refusal{Kind: call.Unavailable, Reason: "ARTIFACTS_UNAVAILABLE", RetryAfter: time.Second,
		Message: "the store with the owners of artifacts is unavailable; retry later"}
)

// checkOwnership rejects an OwnedOnly call that names an artifact its tenant does not own. The refusal is the
// same for another tenant's artifact and for one that does not exist: only the tenant's own artifacts
// are looked up. The caller holds mu.
func (r *Resolver) checkOwnership(q *Query, now time.Time) *call.Refusal {
	if !q.OwnedOnly {
		return nil
	}
	for _, id := range q.Artifacts {
		h, ok := r.artifacts.Peek(q.artifact(id))
		switch known := ok && !now.After(h.until) && !h.unconfirmed; {
		case known && h.addr != "":
		case known, q.storeAnswered, r.store == nil, len(id) > MaxID:
			return refusedUnknown
		default:
			return refusedUnavailable
		}
	}
	return nil
}

// applyOwnership applies the store's verdict on which of the stored artifacts belong to the tenants
// that they were named to.
func (r *Resolver) applyOwnership(stored []Location, owned []bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := range stored {
		h, ok := r.artifacts.Peek(stored[i].Artifact)
		if !ok || !h.unconfirmed {
			continue
		}
		if h.unconfirmed = false; !owned[i] {
			h = cacheEntry{until: time.Now().Add(unknownFor)}
		}
		r.artifacts.Add(stored[i].Artifact.Tenant, stored[i].Artifact, h)
	}
}
