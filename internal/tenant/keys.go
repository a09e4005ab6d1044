package tenant

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/lib/strictyaml"
)

// Key is an API key of a tenant, without its secret, as capgate keys new makes one.
type Key struct {
	// The key's public part, unique among all tenants; capgate keys new creates one.
	ID string `yaml:"id" kind:"key_id" required:"" unique:"key"`
	// Hash of its secret: sha256: or hmac-sha256: and 64 hexadecimal digits; or hash_file.
	Hash Hash `yaml:"hash"`
	// File with the hash.
	HashFile string `yaml:"hash_file" kind:"file"`
	// Its scopes.
	Scopes Scopes `yaml:"scopes" default:"[invoke, read]"`
	// Names that its holder may assert with x-user-id and x-agent-id. Default none.
	Asserts Asserts `yaml:"asserts"`
	// Name for display.
	Name string `yaml:"name" max:"256"`
	// End of its validity. Default never.
	Expires time.Time `yaml:"expires"`

	Tenant     string     `yaml:"-"`
	KeyHistory `yaml:"-"` // only for keys of the store
}

// Check checks that there is one hash.
func (k *Key) Check(at strictyaml.At) { CheckHash(at) }

// CheckHash checks that a key of a file has one hash.
func CheckHash(at strictyaml.At) {
	switch {
	case at.Has("hash") && at.Has("hash_file"):
		at.Fail("hash_file", "hash is set, too; set only one of them")
	case !at.Has("hash") && !at.Has("hash_file"):
		at.Missing("hash", "required: the hash of the key's secret; or hash_file")
	}
}

// Keys holds the API keys of the configuration for all tenants. It answers from memory.
type Keys struct {
	now   func() time.Time
	known atomic.Pointer[table]
}

// table is immutable.
type table struct {
	pepper []byte
	keys   map[string]*cachedKey // keys by id
}

// cachedKey is a key with a digest of the last credential that matched it, so that the next call needs no
// second hash. The digest never leaves the process.
type cachedKey struct {
	Key
	stored   bool        // the key is from the store
	of       *Keys       // Keys that the key is from; nil: it is from the store
	settings *Settings   // settings of the tenant, if that is in the configuration
	removed  atomic.Bool // of no longer has the key
	verified atomic.Pointer[[sha256.Size]byte]
}

// NewKeys returns Keys without any key. The argument now is the clock; nil: the system's.
func NewKeys(now func() time.Time) *Keys {
	if now == nil {
		now = time.Now
	}
	k := &Keys{now: now}
	k.known.Store(&table{})
	return k
}

// Replace replaces the keys. A key that is missing from keys is rejected from now on. The map of has the
// settings of their tenants by id. The secrets are hashed under pepper; empty: under none.
func (k *Keys) Replace(keys []Key, of map[string]*Settings, pepper []byte) {
	next := &table{pepper: pepper, keys: make(map[string]*cachedKey, len(keys))}
	for i := range keys {
		next.keys[keys[i].ID] = &cachedKey{Key: keys[i], of: k, settings: of[keys[i].Tenant]}
	}
	for _, key := range k.known.Swap(next).keys {
		key.removed.Store(true)
	}
}

// Lookup authenticates a caller. Tenant and Key of the result are strings of Keys, User and Agent those of the
// credentials. The time that it takes may reveal that an id is unknown, because ids are public. It does not
// reveal that a secret is wrong.
func (k *Keys) Lookup(c Credentials) (identity Identity, known bool, refusal *call.Refusal) {
	identity, refusal = k.identify(c)
	return identity, true, refusal
}

// Authenticate does the same as Lookup, which always has an answer.
func (k *Keys) Authenticate(_ context.Context, c Credentials) (Identity, *call.Refusal) {
	return k.identify(c)
}

// Of returns the keys of a tenant in the order of their ids.
func (k *Keys) Of(tenant string) (all []*Key) {
	for _, key := range k.known.Load().keys {
		if key.Tenant == tenant {
			all = append(all, &key.Key)
		}
	}
	slices.SortFunc(all, func(a, b *Key) int { return strings.Compare(a.ID, b.ID) })
	return all
}

// Find returns the key with this id, or nil.
func (k *Keys) Find(id string) *Key {
	if key := k.known.Load().keys[id]; key != nil {
		return &key.Key
	}
	return nil
}

// has reports whether there is a key with this id.
func (k *Keys) has(id string) bool { return k.known.Load().keys[id] != nil }

func (k *Keys) identify(c Credentials) (Identity, *call.Refusal) {
	id, secret, ok := ParseCredential(c.Credential)
	if !ok {
		return Identity{}, refusedCredential
	}
	t := k.known.Load()
	key := t.keys[id]
	if key == nil || !key.matches(&c, secret, t.pepper) {
		return Identity{}, refusedCredential
	}
	return key.authenticate(c, key.settings, k.now)
}

// authenticate returns the identity for a key whose secret matched, and a tenant with these settings; nil: the
// tenant no longer exists.
func (k *cachedKey) authenticate(c Credentials, of *Settings, now func() time.Time) (Identity, *call.Refusal) {
	if k.stored && (!k.Revoked.IsZero() || of == nil || of.uid != "" && of.uid != k.UID) {
		return Identity{}, refusedCredential
	}
	identity := Identity{Tenant: k.Tenant, Key: k.ID, Scopes: k.Scopes, Settings: of}
	if expired(k.Expires, now) || expired(k.Until, now) {
		return identity, refusedExpired
	}
	return identity.Assert(c, k.Asserts)
}

// expired reports whether end is set and in the past.
func expired(end time.Time, now func() time.Time) bool { return !end.IsZero() && !now().Before(end) }

// matches compares in constant time only.
func (k *cachedKey) matches(c *Credentials, secret string, pepper []byte) bool {
	if c.Proof.proves(k, c.Credential) {
		return true
	}
	if !k.matchesHash(c.Credential, secret, pepper) {
		return false
	}
	c.Proof.remember(k, c.Credential)
	return true
}

// matchesHash compares hashes, of which that of the last credential is known.
func (k *cachedKey) matchesHash(credential, secret string, pepper []byte) bool {
	var text [credentialLen]byte
	copy(text[:], credential)
	print := sha256.Sum256(text[:])
	if shown := k.verified.Load(); shown != nil && subtle.ConstantTimeCompare(print[:], shown[:]) == 1 {
		return true
	}
	return k.verify(secret, pepper, print)
}

// verify is apart from matchesHash so that only it allocates.
func (k *cachedKey) verify(secret string, pepper []byte, print [sha256.Size]byte) bool {
	if !k.Hash.Matches(strings.Clone(secret), pepper) {
		return false
	}
	k.verified.Store(&print)
	return true
}

// Refusals of a credential. They do not tell whether the id or the secret is wrong.
var (
	refusedCredential = &call.Refusal{Kind: call.Unauthenticated, Reason: "CREDENTIAL_INVALID",
		Message: "the API key is unknown, revoked or wrong"}
	refusedExpired = &call.Refusal{Kind: call.Unauthenticated, Reason: "CREDENTIAL_EXPIRED",
		Message: "the API key has expired"}
	refusedDisabled = &call.Refusal{Kind: call.PermissionDenied, Reason: "TENANT_DISABLED",
		Message: "the tenant is disabled"}
)
