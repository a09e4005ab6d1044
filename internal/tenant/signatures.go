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
	store   SharedKeys
	now     func() time.Time
	file    atomic.Pointer[[][]byte]
	shared  atomic.Pointer[sharedKey]
}

type sharedKey struct {
	key   [][]byte // one
	until time.Time
}

// NewSignatures makes it. tenants are asked whose it is; nil: there is one tenant, Default. now is the
// clock; nil: the system's.
func NewSignatures(tenants Tenants, store SharedKeys, now func() time.Time) *Signatures {
	if now == nil {
		now = time.Now
	}
	s := &Signatures{tenants: tenants, store: store, now: now}
	s.Replace(nil)
	return s
}

// Replace puts keys in force: the first signs, all are good. None: the shared one.
func (s *Signatures) Replace(keys [][]byte) { s.file.Store(&keys) }

// Sign makes the signature that lets anybody do what a grant says, until it expires.
func (s *Signatures) Sign(ctx context.Context, g Grant) (string, *call.Refusal) {
	settings, refusal := s.settings(ctx, g.Tenant)
	if refusal != nil {
		return "", refusal
	}
	if settings != nil {
		g.uid = settings.UID()
	}
	keys, refusal := s.ask(ctx)
	if refusal != nil {
		return "", refusal
	}
	return g.sign(keys[0]), nil
}

// Identify implements Source.
func (s *Signatures) Identify(c Claim) (who Identity, known bool, refusal *call.Refusal) {
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
		if settings, known = s.tenants.Known(g.Tenant); !known {
			return Identity{}, false, nil
		}
	}
	who, refusal = s.admit(g, settings)
	return who, true, refusal
}

// Ask implements Source.
func (s *Signatures) Ask(ctx context.Context, c Claim) (Identity, *call.Refusal) {
	keys, refusal := s.ask(ctx)
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
	return s.admit(g, settings)
}

// admit says on whose behalf a good signature lets somebody call. It does not tell why it does not.
func (s *Signatures) admit(g *Grant, of *Settings) (Identity, *call.Refusal) {
	there := s.tenants == nil && g.Tenant == Default || of != nil && !of.Disabled && of.UID() == g.uid
	if !there || over(g.Expires, s.now) {
		return Identity{}, refusedSignature
	}
	return Identity{Tenant: g.Tenant, Key: g.Key, Scopes: Invoke, Settings: of, Only: &g.Download}, nil
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

// ask may wait. While the store is away, the key that was there before is good.
func (s *Signatures) ask(ctx context.Context) ([][]byte, *call.Refusal) {
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
