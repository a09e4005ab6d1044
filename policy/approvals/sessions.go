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

// remembered is what was answered for a session, and to which approval.
type remembered struct {
	state   State
	id      string
	comment string // of a denial: why; at most longestReason bytes
}

// sessions holds the answers for sessions that were asked for last.
type sessions struct {
	now func() time.Time

	mu      sync.Mutex
	known   *lru.Cache[sessionKey, session]
	changes uint64 // how often something was forgotten
}

type session struct {
	remembered
	until time.Time
}

func newSessions(most int, now func() time.Time) (*sessions, error) {
	known, err := lru.New[sessionKey, session](most)
	return &sessions{now: now, known: known}, err
}

// get answers with nothing for what is not known, and with what put has to be told.
func (s *sessions) get(k sessionKey) (remembered, uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if e, ok := s.known.Get(k); ok && s.now().Before(e.until) {
		return e.remembered, s.changes
	}
	return remembered{}, s.changes
}

// put keeps what the store said, unless something has changed since it was asked.
func (s *sessions) put(k sessionKey, r remembered, left time.Duration, epoch uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if epoch == s.changes && left > 0 {
		s.known.Add(k, session{r, s.now().Add(left)})
	}
}

func (s *sessions) forget(k sessionKey) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.changes++
	s.known.Remove(k)
}

func (s *sessions) forgetAll() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.changes++
	s.known.Purge()
}
