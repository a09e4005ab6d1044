package redisstore

import (
	"context"
	"errors"

	"github.com/capgate/capgate/internal/tenant"
)

// Signing holds the key with which replicas sign URLs, or another key that they share.
//
//	{signing}:key  string  none  key for signed URLs, unless a file has one: 32 bytes
type Signing struct {
	client
	of tag
}

// Signing returns the store of the key.
func (s *Store) Signing() *Signing { return &Signing{s.client(Identity), tag{"signing"}} }

// SigningKey implements tenant.SharedKeys.
func (s *Signing) SigningKey(ctx context.Context, proposal []byte) (key []byte, err error) {
	name := s.key(s.of, "key")
	signed := string(proposal)
	if seal := s.sign(SigningRecord, name, signed); seal != "" {
		signed += "." + seal
	}
	bad := "" // the stored value, without a valid signature
	for range 2 {
		held, err := s.run(ctx, signingScript, []string{name}, signed, bad).Text()
		if err != nil {
			return nil, err
		}
		key, seal := held, ""
		if len(held) > len(proposal) && held[len(proposal)] == '.' {
			key, seal = held[:len(proposal)], held[len(proposal)+1:]
		}
		if s.verify(SigningRecord, name, seal, key) {
			return []byte(key), nil
		}
		bad = held
	}
	return nil, errors.New("the shared key in redis has no valid signature by a key of store_key_file, and " +
		"another replica restores it; give all replicas the same store_key_file")
}

var signingScript = newScript("signing_key")

var _ tenant.SharedKeys = (*Signing)(nil)
