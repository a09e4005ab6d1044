package token

import (
	"context"
	"crypto/sha256"
	"time"
	"unsafe"

	"github.com/capgate/capgate/internal/tenant"
)

// tokenHash identifies a token. It never leaves the process.
type tokenHash = [sha256.Size]byte

// hashOf hashes the token in place: a copy would be 8 KiB.
func hashOf(raw string) tokenHash {
	return sha256.Sum256(unsafe.Slice(unsafe.StringData(raw), len(raw)))
}

// verified is the result of a token with a valid signature. It is immutable.
type verified struct {
	identity tenant.Identity // without Settings, which may change
	expires  time.Time       // the leeway included
	issuer   *issuer
	key      *key
	by       *Verifier
}

// valid reports whether issuer and key are still in force.
func (v *verified) valid() bool { return !v.issuer.gone.Load() && !v.key.gone.Load() }

// StillValid implements tenant.Validity.
func (v *verified) StillValid(ctx context.Context) bool {
	return v.valid() && v.by.options.Now().Before(v.expires) &&
		tenant.StillEnabled(ctx, v.by.tenants, v.identity.Tenant)
}

// cached returns a token's result from memory, if it is valid; nil if there is none.
func (v *Verifier) cached(hash *tokenHash) *verified {
	e := v.cache.GetBytes(hash[:])
	if e == nil {
		return nil
	}
	if !e.Value.valid() {
		v.cache.Remove(e.Key())
		return nil
	}
	return e.Value
}
