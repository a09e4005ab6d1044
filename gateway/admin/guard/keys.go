package guard

import (
	"net/http"
	"sync/atomic"
	"time"

	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/operator"
	"github.com/capgate/capgate/internal/tenant"
)

// Key is an operator's API key, without its secret.
type Key struct {
	ID      string
	Name    string // for display
	Tenant  string // only tenant of its roles; empty means all
	Hash    tenant.Hash
	Roles   operator.Roles
	Expires time.Time // zero means never
}

// identity returns the operator of the key.
func (k *Key) identity() *operator.Identity {
	who := &operator.Identity{Name: tenant.KeyLabel(k.ID, k.Name), Key: k.ID, Via: operator.ViaKey}
	who.Grant(k.Tenant, k.Roles)
	return who
}

// Keys authenticates operators by the API keys of the configuration, from memory.
type Keys struct {
	now   func() time.Time
	known atomic.Pointer[keyTable]
}

// keyTable is an immutable set of keys.
type keyTable struct {
	keys   map[string]*Key
	pepper []byte
}

// NewKeys returns Keys without keys. now is the clock; nil means the system clock.
func NewKeys(now func() time.Time) *Keys {
	if now == nil {
		now = time.Now
	}
	k := &Keys{now: now}
	k.known.Store(&keyTable{})
	return k
}

// Replace replaces the keys. Their secrets are hashed with pepper; empty means without one.
func (k *Keys) Replace(keys []Key, pepper []byte) {
	next := &keyTable{keys: make(map[string]*Key, len(keys)), pepper: pepper}
	for i := range keys {
		next.keys[keys[i].ID] = &keys[i]
	}
	k.known.Store(next)
}

// Authenticate implements Authenticator. Keys of tenants are unknown to it.
func (k *Keys) Authenticate(r *http.Request) (*operator.Identity, bool, *call.Refusal) {
	text, _ := Credential(r)
	id, secret, ok := tenant.ParseCredential(text)
	if !ok {
		return nil, false, nil
	}
	table := k.known.Load()
	key := table.keys[id]
	switch {
	case key == nil:
		return nil, false, nil
	case !key.Hash.Matches(secret, table.pepper):
		return nil, true, refusedKey
	case !key.Expires.IsZero() && !k.now().Before(key.Expires):
		return nil, true, refusedExpired
	}
	return key.identity(), true, nil
}

// Name returns the name of a key by its id; empty means the key has none or is unknown.
func (k *Keys) Name(id string) string {
	if key := k.known.Load().keys[id]; key != nil {
		return key.Name
	}
	return ""
}

// Find returns the operator of a valid key by its id; nil means unknown or expired.
func (k *Keys) Find(id string) *operator.Identity {
	key := k.known.Load().keys[id]
	if key == nil || !key.Expires.IsZero() && !k.now().Before(key.Expires) {
		return nil
	}
	return key.identity()
}

var (
	refusedKey = &call.Refusal{Kind: call.Unauthenticated, Reason: "CREDENTIAL_INVALID",
		Message: "the API key is unknown, revoked or wrong"}
	refusedExpired = &call.Refusal{Kind: call.Unauthenticated, Reason: "CREDENTIAL_EXPIRED",
		Message: "the API key has expired"}
)
