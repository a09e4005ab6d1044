package tenant

import (
	"context"
	"crypto/rand"
	"slices"
	"sync/atomic"
	"time"

	"github.com/capgate/capgate/internal/call"
)

// SharedKeys keeps the key that replicas sign with where no file has one.
type SharedKeys interface {
	// SigningKey answers with the key that there is, which is the proposal where there was none.
	// It must end with ctx.
	SigningKey(ctx context.Context, proposal []byte) ([]byte, error)
}

// keyBytes is how long a key is that the gateway makes.
const keyBytes = 32

// keyFresh is how long a shared key is taken from memory, should another have come in its place.
const keyFresh = time.Minute

// Signatures makes and knows the signatures of URLs. It is a Source for claims that have one.
type Signatures struct {
	tenants Tenants // nil: there is one, Default
	holders *Authenticators
	store   SharedKeys
	now     func() time.Time
	file    atomic.Pointer[[][]byte]
	shared  atomic.Pointer[sharedKey]
}

type sharedKey struct {
	key   [][]byte // one
	until time.Time
}

// NewSignatures makes it. tenants are asked whose it is; nil: there is one tenant, Default. holders have
// the API keys without which what was signed for them ends; nil: there are none. now is the clock; nil:
// the system's.
func NewSignatures(tenants Tenants, holders *Authenticators, store SharedKeys, now func() time.Time) *Signatures {
	if now == nil {
		now = time.Now
	}
	s := &Signatures{tenants: tenants, holders: holders, store: store, now: now}
	s.Replace(nil)
	return s
}

// Replace puts keys in force: the first signs, all are good. None: the shared one.
func (s *Signatures) Replace(keys [][]byte) { s.file.Store(&keys) }

// Sign makes the signature that lets anybody do what a grant says, until it expires.
func (s *Signatures) Sign(ctx context.Context, g SignedGrant) (string, *call.Refusal) {
	settings, refusal := s.settings(ctx, g.Tenant)
	if refusal != nil {
		return "", refusal
	}
	if settings != nil {
		g.uid = settings.UID()
	}
	holder, refusal := s.keyByID(ctx, g.Key)
	if refusal != nil {
		return "", refusal
	}
	g.keyBound = holder != nil
	keys, refusal := s.loadKeys(ctx)
	if refusal != nil {
		return "", refusal
	}
	return g.sign(keys[0]), nil
}

// Lookup implements Source.
func (s *Signatures) Lookup(c Credentials) (who Identity, found bool, refusal *call.Refusal) {
	keys := s.keys()
	if keys == nil {
		return Identity{}, false, nil
	}
	g := readGrant(c.Signature, keys)
	if g == nil {
		return Identity{}, true, refusedSignature
	}
	var settings *Settings
	if s.tenants != nil {
		if settings, found = s.tenants.Lookup(g.Tenant); !found {
			return Identity{}, false, nil
		}
	}
	var holder *cachedKey
	if g.keyBound && s.holders != nil {
		if holder, found = s.holders.keyByID(g.Key); !found {
			return Identity{}, false, nil
		}
	}
	who, refusal = s.authorize(g, settings, holder)
	return who, true, refusal
}

// Authenticate implements Source.
func (s *Signatures) Authenticate(ctx context.Context, c Credentials) (Identity, *call.Refusal) {
	keys, refusal := s.loadKeys(ctx)
	if refusal != nil {
		return Identity{}, refusal
	}
	g := readGrant(c.Signature, keys)
	if g == nil {
		return Identity{}, refusedSignature
	}
	settings, refusal := s.settings(ctx, g.Tenant)
	if refusal != nil {
		return Identity{}, refusal
	}
	var holder *cachedKey
	if g.keyBound {
		if holder, refusal = s.keyByID(ctx, g.Key); refusal != nil {
			return Identity{}, refusal
		}
	}
	return s.authorize(g, settings, holder)
}

// authorize says on whose behalf a good signature lets somebody call, as long as the API key that asked for it,
// if one did, might do the same. It does not tell why it does not.
func (s *Signatures) authorize(g *SignedGrant, of *Settings, holder *cachedKey) (Identity, *call.Refusal) {
	there := s.tenants == nil && g.Tenant == Default || of != nil && !of.Disabled && of.UID() == g.uid
	if !there || expired(g.Expires, s.now) {
		return Identity{}, refusedSignature
	}
	if g.keyBound && !holder.downloads(g.Tenant, of, s.now) {
		return Identity{}, refusedSignature
	}
	return Identity{Tenant: g.Tenant, Key: g.Key, Scopes: Invoke, Settings: of, Only: &g.Download}, nil
}

// downloads says whether whoever shows a key, which may be nil, might download files of a tenant with these
// settings.
func (k *cachedKey) downloads(tenant string, of *Settings, now func() time.Time) bool {
	if k == nil || k.Tenant != tenant {
		return false
	}
	who, refusal := k.authenticate(Credentials{}, of, now)
	return refusal == nil && who.Scopes.Any(Invoke)
}

// keyByID is the API key with this id; nil: there is none. It may wait.
func (s *Signatures) keyByID(ctx context.Context, id string) (*cachedKey, *call.Refusal) {
	if s.holders == nil || !IsKeyID(id) {
		return nil, nil
	}
	return s.holders.loadKey(ctx, id)
}

func (s *Signatures) settings(ctx context.Context, tenant string) (*Settings, *call.Refusal) {
	if s.tenants == nil {
		return nil, nil
	}
	return s.tenants.Settings(ctx, tenant)
}

// keys are those in memory; nil: the store has to be asked.
func (s *Signatures) keys() [][]byte {
	if file := *s.file.Load(); len(file) > 0 {
		return file
	}
	if k := s.shared.Load(); k != nil && s.now().Before(k.until) {
		return k.key
	}
	return nil
}

// loadKeys may wait. While the store is away, the key that was there before is good.
func (s *Signatures) loadKeys(ctx context.Context) ([][]byte, *call.Refusal) {
	if keys := s.keys(); keys != nil {
		return keys, nil
	}
	proposal := make([]byte, keyBytes)
	_, _ = rand.Read(proposal) // it never fails
	last := s.shared.Load()
	if last != nil {
		proposal = slices.Clone(last.key[0]) // a store that has lost it gets it back
	}
	key, err := s.store.SigningKey(ctx, proposal)
	switch {
	case err == nil && len(key) == keyBytes:
		last = &sharedKey{[][]byte{key}, s.now().Add(keyFresh)}
		s.shared.Store(last)
	case last == nil:
		return nil, refusedUnsigned
	}
	return last.key, nil
}

var (
	refusedSignature = &call.Refusal{Kind: call.PermissionDenied, Reason: "SIGNATURE_INVALID",
		Message: "the URL is not good for this, or not any more"}
	refusedUnsigned = &call.Refusal{Kind: call.Unavailable, Reason: "SIGNATURES_UNAVAILABLE", RetryAfter: time.Second,
		Message: "at the moment the key of signed URLs cannot be had"}
)

// RefuseSignature is the refusal of a signature that is not good for what is asked with it.
func RefuseSignature() *call.Refusal { return refusedSignature }
