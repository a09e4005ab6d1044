package session

import (
	"sync"
	"time"

	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/lib/tokenbucket"
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
	first   *tokenbucket.Bucket // of the first attempts of all networks
	all     *tokenbucket.Bucket // of all others
	clients *tokenbucket.Keyed
}

// NewLimiter returns a Limiter. now is the clock; nil: the system's.
func NewLimiter(now func() time.Time) *Limiter {
	if now == nil {
		now = time.Now
	}
	return &Limiter{now: now, clients: tokenbucket.NewKeyed(maxClients, clientBurst, clientEvery),
		first: tokenbucket.New(firstBurst, firstEvery), all: tokenbucket.New(allBurst, allEvery)}
}

// Attempt counts an attempt of a client's network. It returns a refusal if there were too many.
func (l *Limiter) Attempt(network string) *call.Refusal {
	l.mu.Lock()
	defer l.mu.Unlock()
	own, now := l.clients.Of(network), l.now()
	wait := own.Take(now)
	switch {
	case wait > 0:
	case own.FullIn(now) > firstAttempts*clientEvery || l.first.Take(now) > 0:
		wait = l.all.Take(now)
	}
	if wait == 0 {
		return nil
	}
	return &call.Refusal{Kind: call.ResourceExhausted, Reason: "SIGN_IN_LIMITED", RetryAfter: max(wait, time.Second),
		Message: "too many attempts to sign in; try again later"}
}
