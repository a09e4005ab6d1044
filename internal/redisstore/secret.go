package redisstore

import (
	"context"
	"fmt"

	"github.com/redis/go-redis/v9"

	"github.com/capgate/capgate/internal/lib/sharedkey"
)

// Secret holds the secret that replicas share. It is a sharedkey.Store.
type Secret struct{ client }

// Secret returns the store of the secret.
func (s *Store) Secret() *Secret { return &Secret{s.client(Identity)} }

// SharedSecret implements sharedkey.Store.
func (s *Secret) SharedSecret(ctx context.Context, proposal []byte) (secret []byte, err error) {
	name := s.key("{secret}:shared")
	err = s.do(ctx, func(ctx context.Context, r redis.Cmdable) error {
		if err := r.SetNX(ctx, name, proposal, 0).Err(); err != nil {
			return err
		}
		secret, err = r.Get(ctx, name).Bytes()
		return err
	})
	if redis.HasErrorPrefix(err, "WRONGTYPE") || err == nil && len(secret) != sharedkey.Bytes {
		return nil, fmt.Errorf("the key %s in Redis should be a string of %d bytes, the secret that replicas share, "+
			"and has another type or length; delete the key, and a replica creates a new secret, or configure a "+
			"secret_file", name, sharedkey.Bytes)
	}
	return secret, err
}

var _ sharedkey.Store = (*Secret)(nil)
