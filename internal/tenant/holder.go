package tenant

import (
	"context"

	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/lib/untrusted"
)

// KeyLabel names an API key for people: "CI of Acme, key abcd". Characters of the name that cannot be seen, or that
// change the order of others, are replaced.
func KeyLabel(id, name string) string {
	if name == "" {
		return "key " + id
	}
	return untrusted.Word(name) + ", key " + id
}

// KeyName returns the name of an API key, by its id. It reads only memory; "": the key has none, or is not
// cached. A nil Authenticators has no keys.
func (i *Authenticators) KeyName(id string) string {
	if i == nil || !IsKeyID(id) {
		return ""
	}
	if k, _ := i.keyByID(id); k != nil {
		return k.Name
	}
	return ""
}

// Key returns an API key without its secret, by its id; nil if there is none. It may wait until ctx ends. A nil
// Authenticators has no keys.
func (i *Authenticators) Key(ctx context.Context, id string) (*Key, *call.Refusal) {
	if i == nil || !IsKeyID(id) {
		return nil, nil
	}
	k, refusal := i.loadKey(ctx, id)
	if k == nil || refusal != nil {
		return nil, refusal
	}
	return &k.Key, nil
}

// Holder returns the caller that an API key identifies, by the key's id, without its secret: for a session that began
// with the key. It may wait until ctx ends. A key that was revoked or has expired, and one whose tenant is
// disabled or gone, is refused.
func (i *Authenticators) Holder(ctx context.Context, id string) (Identity, *call.Refusal) {
	if !IsKeyID(id) {
		return Identity{}, refusedCredential
	}
	k, refusal := i.loadKey(ctx, id)
	switch {
	case refusal != nil:
		return Identity{}, refusal
	case k == nil:
		return Identity{}, refusedCredential
	}
	of, now := k.settings, i.File.now
	if k.stored {
		if of, refusal = i.Stored.directory.Settings(ctx, k.Tenant); refusal != nil {
			return Identity{}, refusal
		}
	}
	return k.authenticate(Credentials{}, of, now)
}
