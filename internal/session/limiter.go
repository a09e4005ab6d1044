package session

import (
	"sync"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"

	"github.com/capgate/capgate/internal/call"
)

// Bounds of attempts to sign in.
const (
	clientBurst = 30
	clientEvery = 3 * time.Second
	allBurst    = 500
	allEvery    = 50 * time.Millisecond
	maxClients  = 10_000
	// firstAttempts are those of a network that the further attempts of all others do not prevent. They have a bound of
	// their own, as a client may have very many networks.
	firstAttempts = 5
	firstBurst    = 10_000
	firstEvery    = 10 * time.Millisecond
)

// Limiter bounds the attempts to sign in of each client's network, and of all together. It forgets the network that
// has not been seen for the longest time.
type Limiter struct {
	now func() time.Time

	mu      sync.Mutex
	first   bucket // of the first attempts of all networks
	all     bucket // of all others
	clients *simplelru.LRU[string, *bucket]
}

// NewLimiter returns a Limiter. now is the clock; nil: the system's.
func NewLimiter(now func() time.Time) *Limiter {
	if now == nil {
		now = time.Now
	}
	clients, _ := simplelru.NewLRU[string, *bucket](maxClients, nil) // the size is positive
	return &Limiter{now: now, first: bucket{tokens: firstBurst}, all: bucket{tokens: allBurst}, clients: clients}
}

// bucket is a token bucket.
type bucket struct {
	tokens float64
	at     time.Time
}

// take takes a token, or returns the time until there is one.
func (b *bucket) take(now time.Time, burst int, every time.Duration) (wait time.Duration) {
	if passed := now.Sub(b.at); passed > 0 {
		b.tokens = min(float64(burst), b.tokens+float64(passed)/float64(every))
		b.at = now
	}
	if b.tokens < 1 {
		return max(time.Duration((1-b.tokens)*float64(every)), time.Second)
	}
	b.tokens--
	return 0
}

// Attempt counts an attempt of a client's network. It returns a refusal if there were too many.
func (l *Limiter) Attempt(network string) *call.Refusal {
	l.mu.Lock()
	defer l.mu.Unlock()
	own, known := l.clients.Get(network)
	if !known {
		own = &bucket{tokens: clientBurst}
		l.clients.Add(network, own)
	}
	now := l.now()
	wait := own.take(now, clientBurst, clientEvery)
	switch {
	case wait > 0:
	case own.tokens < clientBurst-firstAttempts || l.first.take(now, firstBurst, firstEvery) > 0:
		wait = l.all.take(now, allBurst, allEvery)
	}
	if wait == 0 {
		return nil
	}
	return &call.Refusal{Kind: call.ResourceExhausted, Reason: "SIGN_IN_LIMITED", RetryAfter: wait,
		Message: "too many attempts to sign in; try again later"}
}
