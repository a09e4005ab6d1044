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

// sessionAnswer is what was answered for a session, and to which approval.
type sessionAnswer struct {
	state   State
	id      string
	comment string // of a denial: why; at most longestReason bytes
}

// sessions holds the answers for sessions that were asked for last.
type sessions struct {
	now func() time.Time

	mu         sync.Mutex
	cache      *lru.Cache[sessionKey, session]
	generation uint64 // how often something was forgotten
}

type session struct {
	sessionAnswer
	until time.Time
}

func newSessions(most int, now func() time.Time) (*sessions, error) {
	known, err := lru.New[sessionKey, session](most)
	return &sessions{now: now, cache: known}, err
}

// get answers with nothing for what is not known, and with what put has to be told.
func (s *sessions) get(k sessionKey) (sessionAnswer, uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if e, ok := s.cache.Get(k); ok && s.now().Before(e.until) {
		return e.sessionAnswer, s.generation
	}
	return sessionAnswer{}, s.generation
}

// put keeps what the store said, unless something has changed since it was asked.
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
