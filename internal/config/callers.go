package config

import (
	"time"

	"github.com/capgate/capgate/internal/tenant"
)

// Identity are settings of callers that are not in the file.
type Identity struct {
	// store: redis uses the tenants and API keys that capgate tenants and capgate keys create, besides the
	// file's; default none
	Stored bool
	Cache  int // cache: API keys kept in memory, and as many tenants, 1000 to 10000000; default 100000
	// ttl: how long one is cached, plus or minus a fifth, in case a change was missed, 1s to 1h; default 1m
	TTL time.Duration
	// max_stale: how long cached keys are valid while Redis is unavailable, 10s to 24h; default 10m
	MaxStale time.Duration
}

// Key is an API key of a tenant, as capgate keys new makes one.
type Key struct {
	ID       string      // id: the key's public part, unique among all tenants
	Hash     tenant.Hash // hash: hash of its secret, sha256:HEX or hmac-sha256:HEX; or
	HashFile string      // hash_file: file with the hash
	// scopes: its scopes, of invoke, read, approve, policy and admin; default invoke and read
	Scopes tenant.Scopes
	// asserts: names that its holder may assert with x-user-id and x-agent-id: user, agent; default none
	Asserts tenant.Asserts
	Name    string    // name: for display, at most 256 bytes; default none
	Expires time.Time // expires: end of its validity, as in 2027-01-31T00:00:00Z; default never
}
