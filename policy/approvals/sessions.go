package approvals

import (
	"sync"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"
)

type sessionKey struct {
	tenant string
	sum    Sum
}

// sessionAnswer is the answer for a session.
type sessionAnswer struct {
	state   State
	id      string
	comment string // of a denial; at most maxComment bytes
}

// sessions caches the answers for sessions.
type sessions struct {
	now func() time.Time

	mu         sync.Mutex
	cache      *lru.Cache[sessionKey, session]
	generation uint64 // number of invalidations
}

type session struct {
	sessionAnswer
	until time.Time
}

func newSessions(most int, now func() time.Time) (*sessions, error) {
	known, err := lru.New[sessionKey, session](most)
	return &sessions{now: now, cache: known}, err
}

// get returns the cached answer, or a zero one, and the generation for put.
func (s *sessions) get(k sessionKey) (sessionAnswer, uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if e, ok := s.cache.Get(k); ok && s.now().Before(e.until) {
		return e.sessionAnswer, s.generation
	}
	return sessionAnswer{}, s.generation
}

// put caches the store's answer, unless it was invalidated since.
func (s *sessions) put(k sessionKey, r sessionAnswer, left time.Duration, epoch uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if epoch == s.generation && left > 0 {
		s.cache.Add(k, session{r, s.now().Add(left)})
	}
}

func (s *sessions) invalidate(k sessionKey) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.generation++
	s.cache.Remove(k)
}

func (s *sessions) invalidateAll() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.generation++
	s.cache.Purge()
}
