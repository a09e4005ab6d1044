package tenant

import (
	"context"

	"github.com/capgate/capgate/internal/call"
)

// Holder returns the caller whom an API key stands for now, by the key's id, without its secret: for a session that
// began with the key. It may wait until ctx ends. A key that was revoked or has expired, and one whose tenant is
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
