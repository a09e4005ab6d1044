package tenant

import (
	"context"
	"time"

	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/lib/sharedkey"
)

// Signatures signs and verifies URLs. It is the Authenticator for credentials with a signature.
type Signatures struct {
	tenants Tenants // nil: there is only Default
	holders *Authenticators
	keys    *sharedkey.Keys
	now     func() time.Time
}

// NewSignatures returns Signatures. If tenants is nil, only Default exists. The end of an API key of holders
// invalidates the signed URLs that it made; nil: there are no keys. If now is nil, the system's clock is used.
func NewSignatures(tenants Tenants, holders *Authenticators, keys *sharedkey.Keys, now func() time.Time) *Signatures {
	if now == nil {
		now = time.Now
	}
	return &Signatures{tenants: tenants, holders: holders, keys: keys, now: now}
}

// Sign returns a signature that permits the grant's request until it expires.
func (s *Signatures) Sign(ctx context.Context, g SignedGrant) (string, *call.Refusal) {
	settings, refusal := s.settings(ctx, g.Tenant)
	if refusal != nil {
		return "", refusal
	}
	g.uid = settings.UID()
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

// Lookup implements Authenticator.
func (s *Signatures) Lookup(c Credentials) (identity Identity, found bool, refusal *call.Refusal) {
	keys := s.keys.Cached()
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
	identity, refusal = s.authorize(g, settings, holder)
	return identity, true, refusal
}

// Authenticate implements Authenticator.
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

// authorize returns the identity for a valid signature. The API key that requested it, if any, must still
// permit the download. The refusal does not tell why it does not.
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

// downloads reports whether a key, which may be nil, permits downloads of a tenant with these settings.
func (k *cachedKey) downloads(tenant string, of *Settings, now func() time.Time) bool {
	if k == nil || k.Tenant != tenant {
		return false
	}
	identity, refusal := k.authenticate(Credentials{}, of, now)
	return refusal == nil && identity.Scopes.Any(Invoke)
}

// keyByID returns the API key with this id; nil if there is none. It may wait.
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

// loadKeys may wait. While the store is unavailable, the last keys remain valid.
func (s *Signatures) loadKeys(ctx context.Context) ([][]byte, *call.Refusal) {
	keys, err := s.keys.Load(ctx)
	if err != nil {
		return nil, refusedUnsigned
	}
	return keys, nil
}

var (
	refusedSignature = &call.Refusal{Kind: call.PermissionDenied, Reason: "SIGNATURE_INVALID",
		Message: "the signed URL is not valid for this request, or has expired"}
	refusedUnsigned = &call.Refusal{Kind: call.Unavailable, Reason: "SIGNATURES_UNAVAILABLE", RetryAfter: time.Second,
		Message: "the key of signed URLs is not available at the moment"}
)

// RefuseSignature returns the refusal of an invalid signature.
func RefuseSignature() *call.Refusal { return refusedSignature }
