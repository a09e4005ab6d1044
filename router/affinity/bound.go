package affinity

import (
	"time"

	"github.com/capgate/capgate/internal/call"
)

// mustKnow is how many times as long as others a bound call waits for the store: without
// its word it is refused.
const mustKnow = 10

var (
	refusedUnknown = &call.Refusal{Kind: call.NotFound, Reason: "ARTIFACT_UNKNOWN",
		Message: "there is no artifact of this id: nobody uploaded it, no answer named it, or that is too long ago"}
	refusedUntold = &call.Refusal{Kind: call.Unavailable, Reason: "ARTIFACTS_UNAVAILABLE", RetryAfter: time.Second,
		Message: "at the moment it cannot be found out whether there is an artifact of this id"}
)

// missing refuses a bound call that names what its tenant was never given. It is the same
// answer for what is another's and for what nobody has, as nothing but the tenant's own is
// asked for. The caller holds mu.
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

// settleClaims takes from the store which of the artifacts that it was told of are the
// tenants' who were told of them.
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
