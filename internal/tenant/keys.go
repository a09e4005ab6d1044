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
)

// Key is what is known of an API key.
type Key struct {
	ID      string
	Tenant  string
	Name    string // for people
	Hash    Hash   // of its secret
	Scopes  Scopes
	Asserts Asserts
	Expires time.Time // zero: never

	KeyHistory // of a key in the store
}

// Keys are the API keys of all tenants. It answers from memory.
type Keys struct {
	now   func() time.Time
	known atomic.Pointer[table]
}

// table is never changed.
type table struct {
	pepper []byte
	keys   map[string]*cachedKey // by id
}

// cachedKey is a key, and a print of the credential that was last shown to be it, so that the
// next call with it costs no second hash. That print never leaves the process.
type cachedKey struct {
	Key
	stored   bool      // it is not of the configuration
	settings *Settings // of the tenant, where that is of the configuration
	verified atomic.Pointer[[sha256.Size]byte]
}

// NewKeys makes Keys without any key. now is the clock; nil: the system's.
func NewKeys(now func() time.Time) *Keys {
	if now == nil {
		now = time.Now
	}
	k := &Keys{now: now}
	k.known.Store(&table{})
	return k
}

// Replace puts other keys in force: a key that is not among them is refused from now on.
// of has the settings of their tenants, by id. pepper is what the secrets are hashed under;
// empty: nothing.
func (k *Keys) Replace(keys []Key, of map[string]*Settings, pepper []byte) {
	next := &table{pepper: pepper, keys: make(map[string]*cachedKey, len(keys))}
	for i := range keys {
		next.keys[keys[i].ID] = &cachedKey{Key: keys[i], settings: of[keys[i].Tenant]}
	}
	k.known.Store(next)
}

// Lookup finds out who calls. Tenant and Key of the answer are Keys' own words, User and
// Agent the claim's. That an id is unknown may be told from the time that it takes, and
// that a secret is wrong may not: ids are public.
func (k *Keys) Lookup(c Credentials) (who Identity, known bool, refusal *call.Refusal) {
	who, refusal = k.identify(c)
	return who, true, refusal
}

// Authenticate does the same: nothing has to be asked.
func (k *Keys) Authenticate(_ context.Context, c Credentials) (Identity, *call.Refusal) {
	return k.identify(c)
}

// Of are the keys of a tenant, by id.
func (k *Keys) Of(tenant string) (all []*Key) {
	for _, key := range k.known.Load().keys {
		if key.Tenant == tenant {
			all = append(all, &key.Key)
		}
	}
	slices.SortFunc(all, func(a, b *Key) int { return strings.Compare(a.ID, b.ID) })
	return all
}

// Find is the key with this id; nil: there is none.
func (k *Keys) Find(id string) *Key {
	if key := k.known.Load().keys[id]; key != nil {
		return &key.Key
	}
	return nil
}

// has says whether there is a key with this id.
func (k *Keys) has(id string) bool { return k.known.Load().keys[id] != nil }

func (k *Keys) identify(c Credentials) (Identity, *call.Refusal) {
	id, secret, ok := ParseCredential(c.Credential)
	if !ok {
		return Identity{}, refusedCredential
	}
	t := k.known.Load()
	key := t.keys[id]
	if key == nil || !key.matches(c.Credential, secret, t.pepper) {
		return Identity{}, refusedCredential
	}
	return key.authenticate(c, key.settings, k.now)
}

// authenticate says who shows a key that was found good, of a tenant with these settings; nil: there
// is no such tenant in the store any more.
func (k *cachedKey) authenticate(c Credentials, of *Settings, now func() time.Time) (Identity, *call.Refusal) {
	if k.stored && (!k.Revoked.IsZero() || of == nil || of.uid != "" && of.uid != k.UID) {
		return Identity{}, refusedCredential
	}
	who := Identity{Tenant: k.Tenant, Key: k.ID, Scopes: k.Scopes, Settings: of}
	if expired(k.Expires, now) || expired(k.Until, now) {
		return who, refusedExpired
	}
	return who.Assert(c, k.Asserts)
}

// expired says whether something that ends, or never does, has ended.
func expired(end time.Time, now func() time.Time) bool { return !end.IsZero() && !now().Before(end) }

// matches compares in constant time only.
func (k *cachedKey) matches(credential, secret string, pepper []byte) bool {
	var text [credentialLen]byte
	copy(text[:], credential)
	print := sha256.Sum256(text[:])
	if shown := k.verified.Load(); shown != nil && subtle.ConstantTimeCompare(print[:], shown[:]) == 1 {
		return true
	}
	return k.verify(secret, pepper, print)
}

// verify is apart from matches so that only it has to allocate.
func (k *cachedKey) verify(secret string, pepper []byte, print [sha256.Size]byte) bool {
	if !k.Hash.Matches(strings.Clone(secret), pepper) {
		return false
	}
	k.verified.Store(&print)
	return true
}

// The refusals of a credential. None says whether it is the id or the secret that is wrong.
var (
	refusedCredential = &call.Refusal{Kind: call.Unauthenticated, Reason: "CREDENTIAL_INVALID",
		Message: "the API key is unknown, revoked or wrong"}
	refusedExpired = &call.Refusal{Kind: call.Unauthenticated, Reason: "CREDENTIAL_EXPIRED",
		Message: "the API key has expired"}
	refusedDisabled = &call.Refusal{Kind: call.PermissionDenied, Reason: "TENANT_DISABLED",
		Message: "the tenant is switched off"}
)
