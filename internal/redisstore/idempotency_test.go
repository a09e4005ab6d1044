package redisstore_test

import (
	"bytes"
	"context"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/capgate/capgate/internal/idempotency"
	"github.com/capgate/capgate/internal/redisstore"
	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/internal/testkit/gatewaytest"
)

// aClaim is a claim whose lease outlives any test.
func aClaim(id, token string) *idempotency.Claim {
	return &idempotency.Claim{Tenant: "acme", ID: id, Fingerprint: "print of " + id, Token: token, Lease: time.Hour,
		TTL: 2 * time.Hour, Limit: 100}
}

// stands returns the state of a key.
func stands(t *testing.T, s *redisstore.IdempotencyStore, c *idempotency.Claim) idempotency.Found {
	t.Helper()
	f, err := s.Begin(t.Context(), c)
	check.Must(t, err)
	return f
}

func TestAKeyHasOneOwner(t *testing.T) {
	onEveryRedis(t, func(t *testing.T, open func() *redisstore.Store) {
		s, other, ctx := open().Idempotency(), open().Idempotency(), t.Context()
		mine, theirs := aClaim("k", "mine"), aClaim("k", "theirs")
		only := aClaim("k", "only")
		only.Limit = 0
		expect := func(what string, of *redisstore.IdempotencyStore, c *idempotency.Claim, want idempotency.State,
			answer string) {
			t.Helper()
			got := stands(t, of, c)
			if got.State != want || string(got.Sealed) != answer || (want == idempotency.Running) != (got.Left > 0) {
				t.Errorf("%s: %+v, want %s", what, got, want)
			}
			if c := want != idempotency.None && want != idempotency.Full; c && got.Fingerprint != "print of k" {
				t.Errorf("%s: %+v", what, got)
			}
		}
		expect("who only asks", s, only, idempotency.None, "")
		expect("the first", s, mine, idempotency.Mine, "")
		expect("the first, again", s, mine, idempotency.Mine, "")
		expect("a repeat", other, theirs, idempotency.Running, "")
		check.Must(t, other.End(ctx, theirs, idempotency.Answered, []byte("theirs")))
		check.Must(t, other.Renew(ctx, theirs))
		expect("what others say of it", other, only, idempotency.Running, "")

		check.Must(t, s.End(ctx, mine, idempotency.None, nil))
		expect("a free key", other, theirs, idempotency.Mine, "")
		check.Must(t, s.End(ctx, mine, idempotency.None, nil))
		expect("who was late", s, mine, idempotency.Running, "")
		for range 2 {
			check.Must(t, other.End(ctx, theirs, idempotency.Answered, []byte("a\x00\xffz")))
		}
		expect("an answer", s, mine, idempotency.Answered, "a\x00\xffz")
		check.Must(t, s.Renew(ctx, mine))
		check.Must(t, other.Renew(ctx, theirs))
		expect("an answer, later", s, only, idempotency.Answered, "a\x00\xffz")

		for id, state := range map[string]idempotency.State{"large": idempotency.TooLarge,
			"doubt": idempotency.Unknown} {
			c := aClaim(id, "mine")
			stands(t, s, c)
			check.Must(t, s.End(ctx, c, state, nil))
			if got := stands(t, other, aClaim(id, "theirs")); got.State != state {
				t.Errorf("%s: %+v", id, got)
			}
		}
		elsewhere := aClaim("k", "elsewhere")
		elsewhere.Tenant = "globex"
		expect("the same key of another tenant", s, elsewhere, idempotency.Mine, "")
	})
}

// TestALeaseEnds: a claim without renewals becomes unknown, and the key is not claimed again; a late result of the
// call counts.
func TestALeaseEnds(t *testing.T) {
	onEveryRedis(t, func(t *testing.T, open func() *redisstore.Store) {
		s := open().Idempotency()
		c, repeat := aClaim("k", "mine"), aClaim("k", "theirs")
		c.Lease = time.Millisecond
		stands(t, s, c)
		check.Holds(t, "the lease to end", func() bool { return stands(t, s, repeat).State == idempotency.Unknown })
		c.Lease = time.Hour
		check.Must(t, s.Renew(t.Context(), c))
		if got := stands(t, s, repeat); got.State != idempotency.Running {
			t.Errorf("it is heard of: %+v", got)
		}
		check.Must(t, s.End(t.Context(), c, idempotency.Answered, []byte("late")))
		if got := stands(t, s, repeat); got.State != idempotency.Answered || string(got.Sealed) != "late" {
			t.Errorf("%+v", got)
		}
	})
}

func TestKeysAreForgotten(t *testing.T) {
	onEveryRedis(t, func(t *testing.T, open func() *redisstore.Store) {
		s := open().Idempotency()
		c, repeat := aClaim("k", "mine"), aClaim("k", "theirs")
		c.TTL, c.Lease, c.Limit = time.Second, time.Millisecond, 1
		stands(t, s, c)
		check.Must(t, s.End(t.Context(), c, idempotency.Answered, []byte("a")))
		next := aClaim("next", "mine")
		next.Limit = 1
		if got := stands(t, s, next); got.State != idempotency.Full &&
			stands(t, s, repeat).State == idempotency.Answered {
			t.Errorf("one too many: %+v", got)
		}
		elsewhere := *next
		elsewhere.Tenant = "globex"
		if got := stands(t, s, &elsewhere); got.State != idempotency.Mine {
			t.Errorf("another tenant: %+v", got)
		}
		check.Holds(t, "the answer to be forgotten, and room for another", func() bool {
			return stands(t, s, next).State == idempotency.Mine
		})

		repeat.Limit = 2
		check.Holds(t, "the key to be free", func() bool { return stands(t, s, repeat).State == idempotency.Mine })
	})
}

func TestWhatIsKeptOfAKeyIsNotUnderstood(t *testing.T) {
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
			c := aClaim(what, "mine")
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
