package guard

import (
	"net/http"
	"sync/atomic"
	"time"

	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/lib/strictyaml"
	"github.com/capgate/capgate/internal/operator"
	"github.com/capgate/capgate/internal/tenant"
)

// Key is an API key of an operator, without its secret.
type Key struct {
	// The key's public part, unique among all keys; capgate keys new creates one.
	ID string `yaml:"id" kind:"key_id" required:"" unique:"key"`
	// Hash of its secret: sha256: or hmac-sha256: and 64 hexadecimal digits; or hash_file.
	Hash tenant.Hash `yaml:"hash"`
	// File with the hash.
	HashFile string `yaml:"hash_file" kind:"file"`
	// Name for display, and in the audit log.
	Name string `yaml:"name" max:"256"`
	// Its roles.
	Roles operator.Roles `yaml:"roles" default:"[viewer]"`
	// The only tenant of its roles. Default all.
	Tenant string `yaml:"tenant" kind:"tenant"`
	// End of its validity. Default never.
	Expires time.Time `yaml:"expires"`
}

// Check checks that there is one hash.
func (k *Key) Check(at strictyaml.At) { tenant.CheckHash(at) }

// identity returns the operator of the key.
func (k *Key) identity() *operator.Identity {
	identity := &operator.Identity{Name: tenant.KeyLabel(k.ID, k.Name), Key: k.ID, Via: operator.ViaKey}
	identity.Grant(k.Tenant, k.Roles)
	return identity
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
