package approvals

import (
	"time"

	"github.com/capgate/capgate/internal/lib/cache"
)

// sessionAnswer is the answer for a session.
type sessionAnswer struct {
	state   State
	id      string
	comment string // of a denial; at most maxComment bytes
}

// sessions caches the answers for sessions.
type sessions struct {
	now   func() time.Time
	cache *cache.Cache[session]
}

type session struct {
	sessionAnswer
	until time.Time
}

func newSessions(most int, now func() time.Time) *sessions {
	return &sessions{now, cache.New[session](most)}
}

// sessionKey returns the key of a tenant's session.
func sessionKey(tenant string, sum *Sum) string { return string(sum[:]) + tenant }

// get returns the cached answer, or a zero one, and the stamp for put.
func (s *sessions) get(tenant string, sum *Sum) (sessionAnswer, cache.Stamp) {
	key := sessionKey(tenant, sum)
	stamp := s.cache.Stamp(key)
	if e := s.cache.Get(key); e != nil && s.now().Before(e.Value.until) {
		return e.Value.sessionAnswer, stamp
	}
	return sessionAnswer{}, stamp
}

// put caches the store's answer, unless it was invalidated since.
func (s *sessions) put(tenant string, sum *Sum, r sessionAnswer, left time.Duration, since cache.Stamp) {
	if left <= 0 {
		return
	}
	e := cache.NewEntry[session](sessionKey(tenant, sum))
	if e == nil {
		return
	}
	e.Value = session{r, s.now().Add(left)}
	s.cache.PutSince(since, e.Key()[len(sum):], e)
}

func (s *sessions) invalidate(tenant string, sum *Sum) { s.cache.Forget(sessionKey(tenant, sum)) }

func (s *sessions) invalidateAll() { s.cache.Clear() }
