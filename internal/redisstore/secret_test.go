package redisstore_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/capgate/capgate/internal/redisstore"
	"github.com/capgate/capgate/internal/testkit/check"
)

// TestReplicasShareOneSecret: the first proposal is the secret of all replicas.
func TestReplicasShareOneSecret(t *testing.T) {
	onEveryRedis(t, func(t *testing.T, open func() *redisstore.Store) {
		one, err := open().Secret().SharedSecret(t.Context(), bytes.Repeat([]byte{1}, 32))
		two, err2 := open().Secret().SharedSecret(t.Context(), bytes.Repeat([]byte{2}, 32))
		if err = errors.Join(err, err2); err != nil || !bytes.Equal(one, two) || one[0] != 1 {
			t.Fatalf("got %x, %x, %v", one, two, err)
		}
	})
}

// TestMalformedSharedSecret: the error says which key is wrong and how to repair it, and has nothing of its value. It
// ends when the key is deleted.
func TestMalformedSharedSecret(t *testing.T) {
	onEveryRedis(t, func(t *testing.T, open func() *redisstore.Store) {
		store, proposal := open(), bytes.Repeat([]byte{1}, 32)
		p := store.Probe()
		key := p.KeyOf("secret", "shared")
		for what, write := range map[string]func(ctx context.Context, r redis.Cmdable) error{
			"a short one": func(ctx context.Context, r redis.Cmdable) error {
				return r.Set(ctx, key, "hunter2", 0).Err()
			},
			"a list": func(ctx context.Context, r redis.Cmdable) error {
				return r.LPush(ctx, key, "hunter2").Err()
			},
		} {
			check.Must(t, p.Do(t.Context(), write))
			_, err := store.Secret().SharedSecret(t.Context(), proposal)
			for _, want := range []string{key, "32 bytes", "delete the key", "secret_file"} {
				if !strings.Contains(fmt.Sprint(err), want) {
					t.Errorf("%s: %v, want %q in it", what, err, want)
				}
			}
			if strings.Contains(fmt.Sprint(err), "hunter2") {
				t.Errorf("%s: the error reveals it: %v", what, err)
			}
			check.Must(t, p.Do(t.Context(), func(ctx context.Context, r redis.Cmdable) error {
				return r.Del(ctx, key).Err()
			}))
		}
		if got, err := store.Secret().SharedSecret(t.Context(), proposal); err != nil || !bytes.Equal(got, proposal) {
			t.Errorf("after the deletion: %x, %v", got, err)
		}
	})
}
