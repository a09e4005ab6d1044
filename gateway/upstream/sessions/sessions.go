// Package sessions shares the sessions of callers at backends, so that each replica can continue them. A stored session
// gives access to a backend's state, so it is encrypted, and its name reveals nothing.
package sessions

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"strings"
	"time"

	"github.com/capgate/capgate/internal/lib/aead"
	"github.com/capgate/capgate/internal/lib/sharedkey"
)

// Store stores sessions.
type Store interface {
	// Enter stores own under a name, and keeps it for ttl more if it is stored already. If another session is stored,
	// Enter returns its value, which is kept for ttl more, and a number: no two results for one session have the same.
	// An own without an ID is not stored.
	Enter(ctx context.Context, name Name, own Session, ttl time.Duration) (other []byte, use int64, _ error)
	// End deletes the session with an id, and reports whether it did. It does not if another replica has entered within
	// idle.
	End(ctx context.Context, name Name, id string, idle time.Duration) (bool, error)
}

// Name names a session of a caller at a backend.
type Name struct {
	Tenant     string // id, which a later tenant may have as well
	Capability string
	Sum        string // digest of all that distinguishes the session, as hexadecimal digits
}

// Session is a stored session.
type Session struct {
	ID    string // distinguishes it from later ones of the same name
	Value []byte
	Uses  int64 // number of earlier results of Enter
}

// Max is the maximum size of a session's value, in bytes. A larger one is not shared.
const Max = 32 << 10

// Shared names the sessions in a Store. A nil Shared has none.
type Shared struct {
	Store Store
	// Keys returns the keys of all replicas. Without keys, no session is shared.
	Keys func(context.Context) [][]byte
}

// Place is the place of one session in the Store. A nil Place is empty, and stores nothing.
type Place struct {
	store  Store
	name   Name
	ttl    time.Duration
	key    []byte // of digests
	sealer *aead.Sealer
}

// Place returns the place of a session of a tenant, whose key begins with its id and a slash, or is its id. ttl is the
// time for which it is kept without use, and of distinguishes it from others of the tenant at the capability.
func (s *Shared) Place(ctx context.Context, tenant, capability string, ttl time.Duration, of any) *Place {
	if s == nil || s.Store == nil || s.Keys == nil {
		return nil
	}
	keys := s.Keys(ctx)
	if len(keys) == 0 {
		return nil
	}
	sealer, err := aead.New(keys)
	if err != nil {
		return nil
	}
	p := &Place{store: s.Store, ttl: ttl, sealer: sealer, key: sharedkey.Derive(keys[:1], "names of sessions")[0]}
	id, _, _ := strings.Cut(tenant, "/")
	p.name = Name{Tenant: id, Capability: capability, Sum: p.digest([]any{tenant, capability, of})}
	return p
}

// digest returns a digest of v, which can be encoded as JSON.
func (p *Place) digest(v any) string {
	mac := hmac.New(sha256.New, p.key)
	_ = json.NewEncoder(mac).Encode(v) // a hash accepts everything
	return hex.EncodeToString(mac.Sum(nil)[:16])
}

// Enter stores a session with an id and a value that had a number of uses, or renews it: is reports that it is the
// stored one. If another one is stored, Enter returns its value and the number of this use of it. An empty id stores
// nothing. A value that another secret has encrypted counts as absent.
func (p *Place) Enter(ctx context.Context, id string, value []byte, uses int64) (other []byte, use int64, is bool) {
	if p == nil || len(value) > Max {
		return nil, 0, false
	}
	own := Session{Uses: uses}
	if id != "" {
		own.ID, own.Value = p.digest(id), p.sealer.Seal(p.bond(), value)
	}
	sealed, use, err := p.store.Enter(ctx, p.name, own, p.ttl)
	switch {
	case err != nil || len(sealed) > 2*Max:
		return nil, 0, false
	case sealed == nil:
		return nil, 0, id != ""
	}
	if other, err = p.sealer.Open(p.bond(), sealed); err != nil {
		return nil, 0, false
	}
	return other, use, false
}

// bond binds an encrypted session to its name.
func (p *Place) bond() []byte { return []byte(p.name.Sum) }

// End deletes a session, unless another replica has entered within idle. It reports whether it did.
func (p *Place) End(ctx context.Context, id string, idle time.Duration) bool {
	if p == nil {
		return false
	}
	ended, err := p.store.End(ctx, p.name, p.digest(id), idle)
	return ended && err == nil
}
