package guard

import (
	"net"
	"sync"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"

	"github.com/capgate/capgate/internal/clientaddr"
)

// Limits of failed attempts from one network: an IPv4 address, or an IPv6 /64.
const (
	maxAttempts  = 10
	attemptEvery = 6 * time.Second // after which one more is permitted
	maxNetworks  = 4096            // number of tracked networks; the least recent one is dropped
)

// Attempts counts failed authentication attempts by the client's network. Its memory is bounded.
type Attempts struct {
	now func() time.Time

	mu  sync.Mutex
	due *simplelru.LRU[string, time.Time] // when all failures of a network have expired
}

// NewAttempts returns Attempts without failures. now is the clock; nil means the system clock.
func NewAttempts(now func() time.Time) *Attempts {
	if now == nil {
		now = time.Now
	}
	due, _ := simplelru.NewLRU[string, time.Time](maxNetworks, nil) // fails only for a size of 0
	return &Attempts{now: now, due: due}
}

// Blocked returns the time until a client may try again; 0 means now. client is a host:port or an address.
func (a *Attempts) Blocked(client string) time.Duration {
	a.mu.Lock()
	defer a.mu.Unlock()
	due, ok := a.due.Get(networkOf(client))
	if !ok {
		return 0
	}
	return max(due.Sub(a.now())-(maxAttempts-1)*attemptEvery, 0)
}

// Failed counts a failed attempt.
func (a *Attempts) Failed(client string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	network, now := networkOf(client), a.now()
	due, ok := a.due.Get(network)
	if !ok || due.Before(now) {
		due = now
	}
	a.due.Add(network, now.Add(min(due.Sub(now)+attemptEvery, maxAttempts*attemptEvery)))
}

func networkOf(client string) string {
	if host, _, err := net.SplitHostPort(client); err == nil {
		client = host
	}
	return clientaddr.NetworkNameOf(client)
}
