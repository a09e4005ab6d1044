package redisstore

import (
	"crypto/tls"
	"log/slog"
	"time"

	"github.com/capgate/capgate/internal/lib/redisurl"
)

// Config says which Redis, and how patient to be with it. The zero value is embedded.
type Config struct {
	URL      string        // see redisurl.Parse; default "embedded"
	Password string        // goes before the URL's; default the URL's
	TLS      *tls.Config   // of rediss; nil: the system's authorities
	Timeout  time.Duration // how long a command may take; default 250ms
	// WaitReplicas is how many replicas must have a write that must not be undone, such as the use of an approval, before
	// it counts; default 0: it counts when the master has it.
	WaitReplicas int
	WaitTimeout  time.Duration // how long that may take; default 1s

	// StoreKeys sign what allows something: the first signs, all verify. None: nothing is signed.
	StoreKeys      [][]byte
	AcceptUnsigned bool // a record without a signature is taken, while those of before the keys are written anew

	Dial   time.Duration // how long connecting may take, in the background if a command has no time left; default 1s
	Prefix string        // of every key and channel; default "cg:"
	Log    *slog.Logger  // told when Redis goes away and comes back; nil: discard
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
	if c.Prefix == "" {
		c.Prefix = "cg:"
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
}
