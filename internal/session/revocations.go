package session

import (
	"maps"
	"sync"
	"time"
)

// Revocation ends one session, or all sessions of a person or key that were issued up to a time.
type Revocation struct {
	Session string    // id; or
	Name    string    // of the person or key
	Before  time.Time // of sessions of Name: the last time of issue that is revoked
	Until   time.Time // when the revoked sessions would expire
	Owner   string    // the share of the store that it is charged to; "": none. Revoked does not return it
}

// revocations holds the revocations that a replica has read. Each is kept until its end.
type revocations struct {
	mu       sync.RWMutex
	sessions map[string]time.Time // ids, and until when
	names    map[string]Revocation
	sweepAt  int       // number of sessions at which ended ones are removed
	follows  followers // checked after each revocation
}

func newRevocations() *revocations {
	return &revocations{sessions: map[string]time.Time{}, names: map[string]Revocation{}}
}

// add takes note of revocations.
func (r *revocations) add(all []Revocation, now time.Time) {
	if len(all) == 0 {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, v := range all {
		switch {
		case !now.Before(v.Until):
		case v.Session != "":
			r.sessions[v.Session] = v.Until
		default:
			known := r.names[v.Name]
			if v.Before.After(known.Before) {
				known.Before = v.Before
			}
			if v.Until.After(known.Until) {
				known.Until = v.Until
			}
			known.Name = v.Name
			r.names[v.Name] = known
		}
	}
	if len(r.sessions) > r.sweepAt {
		maps.DeleteFunc(r.sessions, func(_ string, until time.Time) bool { return !now.Before(until) })
		r.sweepAt = max(2*len(r.sessions), leastSwept)
	}
	r.follows.revoked()
}

// leastSwept is the number of revoked sessions up to which ended ones are kept.
const leastSwept = 1000

// has reports whether a session was revoked.
func (r *revocations) has(s *Session) bool {
	r.mu.RLock()
	defer r.mu.RUnlock()
	if _, revoked := r.sessions[s.ID]; revoked {
		return true
	}
	of, revoked := r.names[s.Name()]
	return revoked && !s.Issued.After(of.Before)
}

// all returns the revocations that still matter, and forgets others.
func (r *revocations) all(now time.Time) (all []Revocation) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for id, until := range r.sessions {
		if !now.Before(until) {
			delete(r.sessions, id)
			continue
		}
		all = append(all, Revocation{Session: id, Until: until})
	}
	for name, v := range r.names {
		if !now.Before(v.Until) {
			delete(r.names, name)
			continue
		}
		all = append(all, v)
	}
	return all
}
