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

	Origin // of a key in the store
}

// Keys are the API keys of all tenants. It answers from memory.
type Keys struct {
	now   func() time.Time
	known atomic.Pointer[table]
}

// table is never changed.
type table struct {
	pepper []byte
	keys   map[string]*known // by id
}

// known is a key, and a print of the credential that was last shown to be it, so that the
// next call with it costs no second hash. That print never leaves the process.
type known struct {
	Key
	stored   bool      // it is not of the configuration
	settings *Settings // of the tenant, where that is of the configuration
	shown    atomic.Pointer[[sha256.Size]byte]
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
	next := &table{pepper: pepper, keys: make(map[string]*known, len(keys))}
	for i := range keys {
		next.keys[keys[i].ID] = &known{Key: keys[i], settings: of[keys[i].Tenant]}
	}
	k.known.Store(next)
}

// Identify finds out who calls. Tenant and Key of the answer are Keys' own words, User and
// Agent the claim's. That an id is unknown may be told from the time that it takes, and
// that a secret is wrong may not: ids are public.
func (k *Keys) Identify(c Claim) (who Identity, known bool, refusal *call.Refusal) {
	who, refusal = k.identify(c)
	return who, true, refusal
}

// Ask does the same: nothing has to be asked.
func (k *Keys) Ask(_ context.Context, c Claim) (Identity, *call.Refusal) { return k.identify(c) }

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

func (k *Keys) identify(c Claim) (Identity, *call.Refusal) {
	id, secret, ok := ParseCredential(c.Credential)
	if !ok {
		return Identity{}, refusedCredential
	}
	t := k.known.Load()
	key := t.keys[id]
	if key == nil || !key.matches(c.Credential, secret, t.pepper) {
		return Identity{}, refusedCredential
	}
	return key.admit(c, key.settings, k.now)
}

// admit says who shows a key that was found good, of a tenant with these settings; nil: there
// is no such tenant in the store any more.
func (k *known) admit(c Claim, of *Settings, now func() time.Time) (Identity, *call.Refusal) {
	if k.stored && (!k.Revoked.IsZero() || of == nil || of.uid != "" && of.uid != k.UID) {
		return Identity{}, refusedCredential
	}
	who := Identity{Tenant: k.Tenant, Key: k.ID, Scopes: k.Scopes, Settings: of}
	if over(k.Expires, now) || over(k.Ends, now) {
		return who, refusedExpired
	}
	return who.Say(c, k.Asserts)
}

// over says whether something that ends, or never does, has ended.
func over(end time.Time, now func() time.Time) bool { return !end.IsZero() && !now().Before(end) }

// matches compares in constant time only.
func (k *known) matches(credential, secret string, pepper []byte) bool {
	var text [credentialLen]byte
	copy(text[:], credential)
	print := sha256.Sum256(text[:])
	if shown := k.shown.Load(); shown != nil && subtle.ConstantTimeCompare(print[:], shown[:]) == 1 {
		return true
	}
	return k.compare(secret, pepper, print)
}

// compare is apart from matches so that only it has to allocate.
func (k *known) compare(secret string, pepper []byte, print [sha256.Size]byte) bool {
	if !k.Hash.Matches(strings.Clone(secret), pepper) {
		return false
	}
	k.shown.Store(&print)
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
