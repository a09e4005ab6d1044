package redisstore_test

import (
	"bytes"
	"context"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/capgate/capgate/internal/idempotency"
	"github.com/capgate/capgate/internal/idempotency/storetest"
	"github.com/capgate/capgate/internal/redisstore"
	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/internal/testkit/gatewaytest"
)

func TestIdempotency(t *testing.T) {
	runContract(t, storetest.Suite(), func(s *redisstore.Store) idempotency.Store { return s.Idempotency() })
}

func TestMalformedRecordsOfAKey(t *testing.T) {
	onEveryRedis(t, func(t *testing.T, open func() *redisstore.Store) {
		s := open().Idempotency()
		for what, spoil := range map[string]func(context.Context, redis.Cmdable, string) error{
			"type": func(ctx context.Context, r redis.Cmdable, key string) error {
				return r.Set(ctx, key, "x", 0).Err()
			},
			"state": func(ctx context.Context, r redis.Cmdable, key string) error {
				return r.HSet(ctx, key, "state", "x").Err()
			},
		} {
			c := storetest.Claim(what, "mine")
			check.Must(t, s.Do(t.Context(), func(ctx context.Context, r redis.Cmdable) error {
				return spoil(ctx, r, s.RecordKey(c))
			}))
			if got, err := s.Begin(t.Context(), c); err == nil {
				t.Errorf("%s: %+v", what, got)
			}
		}
	})
}

// TestNothingOfACallIsInClear looks at everything that is stored of a call.
func TestNothingOfACallIsInClear(t *testing.T) {
	onEveryRedis(t, func(t *testing.T, open func() *redisstore.Store) {
		store := open()
		k := gatewaytest.Answers(t, store, idempotency.Options{})
		r := &idempotency.Request{Tenant: "acme", User: "canary-user", Agent: "canary-agent", Key: "canary-key",
			Method: "Invoke", Capability: "mail", Tool: "send",
			Session: "canary-session", Args: []byte(`{"to":"canary-args"}`)}
		_, _, refusal := k.Do(check.Context(t), r, func(context.Context) ([]byte, idempotency.Outcome) {
			return []byte("canary-answer"), idempotency.Executed
		})
		if refusal != nil {
			t.Fatal(refusal)
		}
		keys := under(t, store, "acme")
		if len(keys) != 2 {
			t.Errorf("keys: %q", keys)
		}
		for _, key := range keys {
			var dump string
			check.Must(t, store.Idempotency().Do(t.Context(), func(ctx context.Context, r redis.Cmdable) error {
				if strings.HasSuffix(key, "index") {
					all, err := r.ZRange(ctx, key, 0, -1).Result()
					dump = strings.Join(all, " ")
					return err
				}
				all, err := r.HGetAll(ctx, key).Result()
				for name, value := range all {
					dump += name + " " + value + " "
				}
				if !bytes.Contains([]byte(dump), []byte("answer")) {
					t.Errorf("no answer in %q", dump)
				}
				return err
			}))
			if strings.Contains(key+dump, "canary") {
				t.Errorf("in clear: %q %q", key, dump)
			}
		}
	})
}
