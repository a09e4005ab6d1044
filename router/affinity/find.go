package affinity

import (
	"strings"
	"time"

	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/router"
)

// Query is what of a call says where it has to go.
type Query struct {
	Fleet     *router.Fleet
	Tenant    string
	Session   string          // "": none
	Artifacts []string        // that the call names
	Bound     bool            // it may name only what its tenant uploaded or was told of
	Tried     *router.Backend // where it provably did not start; nil: nowhere yet

	asked bool // the store has said all that it knows of Artifacts
}

func (q *Query) session() Session { return Session{q.Tenant, q.Fleet.Capability, q.Session} }

// Own makes a Query that outlives the buffers of its call.
func (q *Query) Own() Query {
	own := *q
	own.Tenant, own.Session = strings.Clone(q.Tenant), strings.Clone(q.Session)
	own.Artifacts = make([]string, len(q.Artifacts))
	for i, id := range q.Artifacts {
		own.Artifacts[i] = strings.Clone(id)
	}
	return own
}

// Answer says where a call has to go.
type Answer struct {
	Backend *router.Backend // nil: to any
	Refusal *call.Refusal   // nowhere
	Pinned  *Pinned         // the call's session; nil: none, or it does not matter
}

// Find answers from memory, or says that the answer is not known. It takes a lock for
// some lookups and does not block. It keeps nothing of q.
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

// find answers for a call whose artifacts are at holder, or at nobody. The caller
// holds mu.
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

// answer sends a call where its artifact is, else where its session is.
func (k *Keeper) answer(q *Query, p *Pinned, holder *router.Backend) Answer {
	switch {
	case p.backend == nil:
		return Answer{Refusal: q.Fleet.Homeless(q.Tenant, q.Session)}
	case holder != nil && holder != p.backend:
		return Answer{Backend: holder}
	}
	return Answer{Backend: p.backend, Pinned: p}
}

// lostTo is the answer to the one call that learns that its session's state is gone.
func (k *Keeper) lostTo(q *Query) Answer {
	k.lost.Add(1)
	return Answer{Refusal: &call.Refusal{
		Kind:   call.Unavailable,
		Reason: "SESSION_LOST",
		Message: "the backend that had this session of capability " + q.Fleet.Capability +
			" is gone, and what it held of it; the next call begins anew at another one",
		Metadata: map[string]string{"capability": q.Fleet.Capability, "session": strings.Clone(q.Session)},
	}}
}
