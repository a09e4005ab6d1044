package redisstore

import (
	"context"
	"crypto/tls"
	"log/slog"
	"math/rand/v2"
	"net"
	"time"

	"github.com/capgate/capgate/internal/lib/redisurl"
)

// Config selects a Redis and its timeouts. The zero value is embedded.
type Config struct {
	URL      string        // see redisurl.Parse; default "embedded"
	Password string        // overrides the URL's; default the URL's
	TLS      *tls.Config   // of rediss; nil: the system's CAs
	Timeout  time.Duration // of one command; default 250ms
	// WaitReplicas is the number of replicas that must have a write that must not be undone, such as a
	// redemption of an approval; default 0: the master alone.
	WaitReplicas int
	WaitTimeout  time.Duration // of that wait; default 1s

	// StoreKeys sign records that grant something: the first one signs, all verify. None: no signatures.
	StoreKeys      [][]byte
	AcceptUnsigned bool // accept records without a signature, while those from before the keys are rewritten

	Dial   time.Duration // of one connection attempt, in the background if a command has no time left; default 1s
	Prefix string        // of every key and channel; default "cg:"
	// Dialer connects to a server that is not embedded; default nil: over TCP, with TLS for rediss.
	Dialer func(ctx context.Context, network, addr string) (net.Conn, error)
	// Before is called before each command and subscription, with what it does. A simulation orders them so. It returns
	// when ctx ends; default nil: nothing is.
	Before func(ctx context.Context, command string)
	// Stalled returns for how long goroutines of the process have waited for a CPU since the start; default: measured,
	// unless there is a Dialer. It must not block.
	Stalled func() time.Duration
	// Jitter returns a random duration below its argument; default rand.N.
	Jitter func(time.Duration) time.Duration
	Log    *slog.Logger // logs the loss and the return of Redis; nil: discarded
}

func (c *Config) setDefaults() {
	if c.URL == "" {
		c.URL = redisurl.Embedded.String()
	}
	if c.Timeout == 0 {
		c.Timeout = 250 * time.Millisecond
	}
	if c.WaitTimeout == 0 {
		c.WaitTimeout = time.Second
	}
	if c.Dial == 0 {
		c.Dial = time.Second
	}
	if c.Jitter == nil {
		c.Jitter = rand.N[time.Duration]
	}
	if c.Prefix == "" {
		c.Prefix = "cg:"
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
}
