package config

import (
	"time"

	"github.com/capgate/capgate/internal/tenant"
)

// Identity says how callers are known that the file does not have.
type Identity struct {
	// store: redis has the tenants and API keys that capgate tenants and capgate keys make, beside the file's;
	// default none
	Stored bool
	Cache  int // cache: API keys kept in memory, and as many tenants, 1000 to 10000000; default 100000
	// ttl: how long one is kept, give or take a fifth, should a change have been missed, 1s to 1h; default 1m
	TTL time.Duration
	// max_stale: how long those that are known may call while Redis is away, 10s to 24h; default 10m
	MaxStale time.Duration
}

// Key is an API key of a tenant, as capgate keys new makes one.
type Key struct {
	ID       string      // id: the key's public part, unique among all tenants
	Hash     tenant.Hash // hash: of its secret, sha256:HEX or hmac-sha256:HEX; or
	HashFile string      // hash_file: file that holds the same
	// scopes: what it is good for, of invoke, read, approve, policy and admin; default invoke and read
	Scopes tenant.Scopes
	// asserts: what its holder may say of itself by x-user-id and x-agent-id, of user and agent; default
	// nothing
	Asserts tenant.Asserts
	Name    string    // name: for people, at most 256 bytes; default none
	Expires time.Time // expires: from when on it is refused, as in 2027-01-31T00:00:00Z; default never
}
