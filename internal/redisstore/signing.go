package redisstore

import (
	"context"

	"github.com/redis/go-redis/v9"

	"github.com/capgate/capgate/internal/tenant"
)

// Signing keeps the key that replicas sign URLs with.
type Signing struct{ client }

// Signing returns it.
func (s *Store) Signing() *Signing { return &Signing{s.client(Identity)} }

// SigningKey implements tenant.SharedKeys.
func (s *Signing) SigningKey(ctx context.Context, proposal []byte) (key []byte, err error) {
	name := s.key(tag{"signing"}, "key")
	err = s.do(ctx, func(ctx context.Context, r redis.Cmdable) error {
		if err := r.SetNX(ctx, name, proposal, 0).Err(); err != nil {
			return err
		}
		key, err = r.Get(ctx, name).Bytes()
		return err
	})
	return key, err
}

var _ tenant.SharedKeys = (*Signing)(nil)
