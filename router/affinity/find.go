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
	Session   string          // "": none
	Artifacts []string        // that the call names
	Bound     bool            // the call may name only artifacts that its tenant uploaded or was given
	Tried     *router.Backend // where it provably did not start; nil: not tried yet

	asked bool // the store has answered for all Artifacts
}

func (q *Query) session() Session { return Session{q.Tenant, q.Fleet.Capability, q.Session} }

// Clone returns a Query that outlives the buffers of its call.
func (q *Query) Own() Query {
	own := *q
	own.Tenant, own.Session = strings.Clone(q.Tenant), strings.Clone(q.Session)
	own.Artifacts = make([]string, len(q.Artifacts))
	for i, id := range q.Artifacts {
		own.Artifacts[i] = strings.Clone(id)
	}
	return own
}

// Answer is the destination of a call.
type Answer struct {
	Backend *router.Backend // nil: any
	Refusal *call.Refusal   // the call cannot be sent
	Pinned  *Pinned         // the call's session; nil: none, or irrelevant
}

// Lookup answers from memory, or reports that the answer is not known. It locks for a few map
// lookups, and does not block. It keeps nothing of q.
func (k *Keeper) Find(q *Query) (Answer, bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	now := time.Now()
	askable := k.askable(now)
	holder, known := k.holder(q, now)
	if !known && askable {
		return Answer{}, false
	}
	if refusal := k.missing(q, now); refusal != nil {
		return Answer{Refusal: refusal}, true
	}
	return k.find(q, holder, now, askable)
}

// find answers for a call whose artifacts are at holder, which may be nil. The caller holds mu.
func (k *Keeper) find(q *Query, holder *router.Backend, now time.Time, askable bool) (Answer, bool) {
	switch f := q.Fleet; {
	case q.Session == "":
		return Answer{Backend: holder}, true
	case !f.Affinity().Sessions && f.Reserved(q.Tenant, q.Session):
		home := f.Home(q.Tenant, q.Session, q.Tried)
		if home == nil {
			return Answer{Refusal: f.Homeless(q.Tenant, q.Session)}, true
		}
		return Answer{Backend: home}, true
	case !f.Affinity().Sessions:
		return Answer{Backend: holder}, true
	}
	p, ok := k.sessions.Get(q.session())
	if ok {
		switch p.standing(q, now, askable) {
		case holds:
			if p.due(now) && k.store != nil {
				k.queue(p)
			}
			return k.answer(q, p, holder), true
		case homeless:
			if q.Fleet.Home(q.Tenant, q.Session, nil) == nil {
				return k.answer(q, p, holder), true
			}
		case stale, broken:
		}
	}
	if askable {
		return Answer{}, false
	}
	return k.decide(q, p, holder), true
}

// answer prefers the artifact's backend to the session's.
func (k *Keeper) answer(q *Query, p *Pinned, holder *router.Backend) Answer {
	switch {
	case p.backend == nil:
		return Answer{Refusal: q.Fleet.Homeless(q.Tenant, q.Session)}
	case holder != nil && holder != p.backend:
		return Answer{Backend: holder}
	}
	return Answer{Backend: p.backend, Pinned: p}
}

// lostTo is the answer to the one call that learns of its session's loss.
func (k *Keeper) lostTo(q *Query) Answer {
	k.lost.Add(1)
	return Answer{Refusal: &call.Refusal{
		Kind:   call.Unavailable,
		Reason: "SESSION_LOST",
		Message: "the backend that had this session of capability " + q.Fleet.Capability +
			" is gone, and the session's state with it; the next call starts a new session at another backend",
		Metadata: map[string]string{"capability": q.Fleet.Capability, "session": strings.Clone(q.Session)},
	}}
}
