package redisstore_test

import (
	"bytes"
	"errors"
	"testing"

	"github.com/capgate/capgate/internal/redisstore"
)

// TestReplicasShareOneSecret: the first proposal is the secret of all replicas.
func TestReplicasShareOneSecret(t *testing.T) {
	onEveryRedis(t, func(t *testing.T, open func() *redisstore.Store) {
		one, err := open().Secret().SharedSecret(t.Context(), bytes.Repeat([]byte{1}, 32))
		two, err2 := open().Secret().SharedSecret(t.Context(), bytes.Repeat([]byte{2}, 32))
		if err = errors.Join(err, err2); err != nil || !bytes.Equal(one, two) || one[0] != 1 {
			t.Fatalf("%x, %x, %v", one, two, err)
		}
	})
}
