package affinity

import (
	"strings"
	"time"

	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/router"
)

// Query is the part of a call that determines its backend.
type Query struct {
	Fleet     *router.Fleet
	Tenant    string
	UID       string          // of the tenant; "": tenants have none
	Session   string          // "": none
	Artifacts []string        // that the call names
	OwnedOnly bool            // the call may name only artifacts that its tenant uploaded or was given
	Tried     *router.Backend // where it provably did not start; nil: not tried yet

	storeAnswered bool // the store has answered for all Artifacts
}

func (q *Query) artifact(id string) Artifact {
	return Artifact{q.Tenant, q.UID, q.Fleet.Capability, id}
}

func (q *Query) session() Session { return Session{q.Tenant, q.Fleet.Capability, q.Session} }

// Clone returns a Query that outlives the buffers of its call.
func (q *Query) Clone() Query {
	clone := *q
	clone.Tenant, clone.UID, clone.Session = strings.Clone(q.Tenant), strings.Clone(q.UID), strings.Clone(q.Session)
	clone.Artifacts = make([]string, len(q.Artifacts))
	for i, id := range q.Artifacts {
		clone.Artifacts[i] = strings.Clone(id)
	}
	return clone
}

// Answer is the destination of a call.
type Answer struct {
	Backend *router.Backend // nil: any
	Refusal *call.Refusal   // the call cannot be sent
	Pinned  *Pinned         // the call's session; nil: none, or irrelevant
}

// Lookup answers from memory, or reports that the answer is not known. It locks for a few map
// lookups, and does not block. It keeps nothing of q.
func (r *Resolver) Lookup(q *Query) (Answer, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := time.Now()
	askable := r.storeUsable(now)
	holder, known := r.artifactBackend(q, now)
	if !known && askable {
		return Answer{}, false
	}
	if refusal := r.checkOwnership(q, now); refusal != nil {
		return Answer{Refusal: refusal}, true
	}
	return r.lookup(q, holder, now, askable)
}

// lookup returns the answer for a call with artifacts at holder, which may be nil. The caller must hold mu.
func (r *Resolver) lookup(q *Query, holder *router.Backend, now time.Time, askable bool) (Answer, bool) {
	switch f := q.Fleet; {
	case q.Session == "":
		return Answer{Backend: holder}, true
	case !f.Affinity().Sessions && f.Reserved(q.Tenant, q.Session):
		home := f.Home(q.Tenant, q.Session, q.Tried)
		if home == nil {
			return Answer{Refusal: f.NoHome(q.Tenant, q.Session)}, true
		}
		return Answer{Backend: home}, true
	case !f.Affinity().Sessions:
		return Answer{Backend: holder}, true
	}
	p, ok := r.sessions.Get(q.session())
	if ok {
		switch p.validity(q, now, askable) {
		case valid:
			if p.renewalDue(now) && r.store != nil {
				r.enqueue(p)
			}
			return r.answer(q, p, holder), true
		case unassigned:
			if q.Fleet.Home(q.Tenant, q.Session, nil) == nil {
				return r.answer(q, p, holder), true
			}
		case stale, lost:
		}
	}
	if askable {
		return Answer{}, false
	}
	return r.decideLocally(q, p, holder), true
}

// answer prefers the artifact's backend to the session's.
func (r *Resolver) answer(q *Query, p *Pinned, holder *router.Backend) Answer {
	switch {
	case p.backend == nil:
		return Answer{Refusal: q.Fleet.NoHome(q.Tenant, q.Session)}
	case holder != nil && holder != p.backend:
		return Answer{Backend: holder}
	}
	return Answer{Backend: p.backend, Pinned: p}
}

// sessionLost returns the answer that reports a lost session. Only one call of the session gets it.
func (r *Resolver) sessionLost(q *Query) Answer {
	r.lost.Add(1)
	return Answer{Refusal: &call.Refusal{
		Kind:   call.Unavailable,
		Reason: "SESSION_LOST",
		Message: "the backend that had this session of capability " + q.Fleet.Capability +
			" is gone, and the session's state with it; the next call starts a new session at another backend",
		Metadata: map[string]string{"capability": q.Fleet.Capability, "session": strings.Clone(q.Session)},
	}}
}
