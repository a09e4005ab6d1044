package redisstore_test

import (
	"bytes"
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/capgate/capgate/internal/idempotency"
	"github.com/capgate/capgate/internal/idempotency/storetest"
	"github.com/capgate/capgate/internal/lib/aead"
	"github.com/capgate/capgate/internal/redisstore"
	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/internal/testkit/gatewaytest"
)

func keyed(key, args string) *idempotency.Request {
	return &idempotency.Request{Tenant: "acme", Key: key, Method: "Invoke", Capability: "mail", Tool: "send",
		Args: []byte(args)}
}

// TestOneOfManyRuns: of a hundred repeats at three replicas one runs, and all get its response. The others wait for
// it, or come later.
func TestOneOfManyRuns(t *testing.T) {
	onEveryRedis(t, func(t *testing.T, open func() *redisstore.Store) {
		var all []*idempotency.Service
		for range 3 {
			all = append(all, gatewaytest.Answers(t, open(), idempotency.Options{Poll: time.Hour}))
		}
		for round := range 5 {
			var runs, firsts, repeats atomic.Int64
			key := fmt.Sprint("round ", round)
			atOnce(t, 100, func(i int) {
				answer, repeat, refusal := all[i%3].Do(t.Context(), keyed(key, "{}"), func(context.Context) ([]byte,
					idempotency.Outcome) {
					return []byte(fmt.Sprint("answer ", runs.Add(1))), idempotency.Executed
				})
				switch {
				case refusal != nil || string(answer) != "answer 1":
					t.Errorf("got %q, %v", answer, refusal)
				case repeat:
					repeats.Add(1)
				default:
					firsts.Add(1)
				}
			})
			if runs.Load() != 1 || firsts.Load() != 1 || repeats.Load() != 99 {
				t.Fatalf("round %d: %d ran, %d were the first, %d repeats", round, runs.Load(), firsts.Load(),
					repeats.Load())
			}
		}
	})
}

// TestOneAfterAnotherRuns: where calls do not start, the repeats at three replicas run one at a time, until one
// starts.
func TestOneAfterAnotherRuns(t *testing.T) {
	onEveryRedis(t, func(t *testing.T, open func() *redisstore.Store) {
		var all []*idempotency.Service
		for range 3 {
			all = append(all, gatewaytest.Answers(t, open(), idempotency.Options{Poll: time.Hour}))
		}
		var runs, running, answered atomic.Int64
		atOnce(t, 30, func(i int) {
			answer, _, refusal := all[i%3].Do(t.Context(), keyed("k", "{}"), func(context.Context) ([]byte,
				idempotency.Outcome) {
				defer running.Add(-1)
				if running.Add(1) > 1 {
					t.Error("two ran at once")
				}
				if runs.Add(1) < 10 {
					return []byte("no"), idempotency.NotStarted
				}
				return []byte("yes"), idempotency.Executed
			})
			if refusal != nil {
				t.Error(refusal)
			}
			if string(answer) == "yes" {
				answered.Add(1)
			}
		})
		if runs.Load() != 10 || answered.Load() != 21 {
			t.Errorf("%d ran, %d were answered", runs.Load(), answered.Load())
		}
	})
}

// TestTheOwnerDies: its replica stops renewing the claim.
func TestTheOwnerDies(t *testing.T) {
	onEveryRedis(t, func(t *testing.T, open func() *redisstore.Store) {
		dead := storetest.Claim("", "dead")
		r := keyed("k", "{}")
		found := make(chan *idempotency.Claim, 1)
		spy, err := idempotency.New(spying{open().Idempotency(), found},
			idempotency.Options{Keys: [][]byte{bytes.Repeat([]byte{7}, aead.KeyBytes)}})
		check.Must(t, err)
		t.Cleanup(spy.Close)
		_, _, _ = spy.Do(check.Context(t), r, nil) // reports the claim of such a request
		c := check.Received(t, found, "the claim to be found")
		dead.ID, dead.Fingerprint, dead.Lease = c.ID, c.Fingerprint, 100*time.Millisecond
		storetest.Begin(t, open().Idempotency(), dead)

		k := gatewaytest.Answers(t, open(), idempotency.Options{Poll: time.Hour})
		for range 2 {
			_, _, refusal := k.Do(check.Context(t), r, func(context.Context) ([]byte, idempotency.Outcome) {
				t.Error("it runs again")
				return nil, idempotency.Executed
			})
			if refusal == nil || refusal.Reason != "IDEMPOTENCY_OUTCOME_UNKNOWN" {
				t.Errorf("got %v", refusal)
			}
		}
	})
}

// spying is a store that reports claims, and makes none.
type spying struct {
	idempotency.Store
	found chan<- *idempotency.Claim
}

func (s spying) Begin(_ context.Context, c *idempotency.Claim) (idempotency.Found, error) {
	s.found <- c
	return idempotency.Found{State: idempotency.Unknown, Fingerprint: c.Fingerprint}, nil
}
