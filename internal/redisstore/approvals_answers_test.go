package redisstore_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/redisstore"
	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/internal/testkit/redistest"
	"github.com/capgate/capgate/policy/approvals"
)

// watching runs a service until the test ends.
func watching(t *testing.T, s *redisstore.Store, o approvals.Options) *approvals.Service {
	t.Helper()
	k := service(t, s, o)
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { k.Run(ctx) })
	t.Cleanup(func() { // before the Store is closed
		cancel()
		check.Ended(t, &running, "the background work to end")
	})
	return k
}

// TestAnAnswerForASession: it applies to the unchanged tool, the user, the agent and the session, with any
// arguments, and needs no commands while it is cached.
func TestAnAnswerForASession(t *testing.T) {
	onEveryRedis(t, func(t *testing.T, open func() *redisstore.Store) {
		stores := []*redisstore.Store{open(), open()}
		one, two := watching(t, stores[0], approvals.Options{}), watching(t, stores[1], approvals.Options{})
		a := ask(t, one, request("1"))
		approve(t, two, a, approvals.Answer{Remember: approvals.ThisSession})
		for _, k := range []*approvals.Service{one, two} {
			if got, granted, refusal := k.Create(t.Context(), request("2")); !granted || refusal != nil ||
				got.ID != a.ID || got.State != approvals.Approved {
				t.Errorf("granted %v, %v, %+v", granted, refusal, got)
			}
		}
		before := stores[0].Stats().Commands[redisstore.Approvals]
		for range 100 {
			if _, granted, refusal := one.Create(t.Context(), request("3")); !granted {
				t.Fatal(refusal)
			}
		}
		// A Run that reconnects clears its cache, which is rare.
		if n := stores[0].Stats().Commands[redisstore.Approvals] - before; n > 10 {
			t.Errorf("%d commands for 100 calls", n)
		}
		for word, change := range map[string]func(*approvals.Request){
			"tenant":     func(r *approvals.Request) { r.Tenant = "other" },
			"user":       func(r *approvals.Request) { r.User = "bob" },
			"agent":      func(r *approvals.Request) { r.Agent = "bob" },
			"capability": func(r *approvals.Request) { r.Capability = "x" },
			"tool":       func(r *approvals.Request) { r.Tool = "x" },
			"schema":     func(r *approvals.Request) { r.Schema[0]++ },
			"session":    func(r *approvals.Request) { r.Session = "t" },
			"no session": func(r *approvals.Request) { r.Session = "" },
		} {
			other := request("2")
			change(other)
			if got := ask(t, one, other); got.State != approvals.Pending {
				t.Errorf("another %s: %+v", word, got)
			}
		}
		// Another answer replaces it, on all replicas.
		other := request("4")
		other.Session = "u"
		b := ask(t, one, other)
		approve(t, one, b, approvals.Answer{Remember: approvals.ThisSession})
		if n := one.Stats().Granted; n != 101 {
			t.Errorf("%d granted", n)
		}
	})
}

func TestADenialForASession(t *testing.T) {
	onEveryRedis(t, func(t *testing.T, open func() *redisstore.Store) {
		one, two := watching(t, open(), approvals.Options{}), watching(t, open(),
			approvals.Options{SessionTTL: 50 * time.Millisecond, MaxArgs: 10})
		// so that no approval covers it
		a, b := ask(t, one, request("1")), ask(t, two, request(`"too long to be approved"`))
		approve(t, one, a, approvals.Answer{Remember: approvals.ThisSession})
		if _, granted, refusal := one.Create(t.Context(), request("3")); !granted {
			t.Fatal(refusal)
		}
		if _, err := two.Deny(t.Context(), b.Tenant, b.ID,
			approvals.Answer{Remember: approvals.ThisSession}); err != nil {
			t.Fatal(err)
		}
		check.Holds(t, "the other replica to hear that it is denied, or that the denial is over", func() bool {
			_, granted, _ := one.Create(t.Context(), request("3"))
			return !granted
		})

		check.Until(t, "the denial to end", func() (bool, string) {
			got, granted, _ := one.Create(t.Context(), request("3"))
			return !granted && got.State == approvals.Pending, fmt.Sprint(got, granted)
		})

		r := request("{}")
		r.Session = ""
		c := ask(t, one, r)
		var refusal *call.Refusal
		if got, err := one.Approve(t.Context(), c.Tenant, c.ID,
			approvals.Answer{Remember: approvals.ThisSession}); !errors.As(err, &refusal) ||
			refusal.Reason != "APPROVAL_NOT_REMEMBERED" || got.State != approvals.Pending {
			t.Errorf("without a session: %+v, %v; refusal %+v", got, err, refusal)
		}
	})
}

// TestAMalformedSessionGrantsNothing: a malformed answer for a session counts as none.
func TestAMalformedSessionGrantsNothing(t *testing.T) {
	onEveryRedis(t, func(t *testing.T, open func() *redisstore.Store) {
		s := open()
		k, st := service(t, s, approvals.Options{SessionCacheTTL: time.Nanosecond}), s.Approvals()
		a := ask(t, k, request("{}"))
		approve(t, k, a, approvals.Answer{Remember: approvals.ThisSession})
		keys, err := st.Keys(t.Context(), st.SessionKey(a.Tenant, "*"))
		if err != nil || len(keys) != 1 {
			t.Fatalf("got %q, %v", keys, err)
		}
		for i, text := range []string{"", "approved", "Approved x", "used x", "approved  x", "\xff"} {
			if err := st.Do(t.Context(), func(ctx context.Context, r redis.Cmdable) error {
				return r.Set(ctx, keys[0], text, time.Hour).Err()
			}); err != nil {
				t.Fatal(err)
			}
			if got := ask(t, k, request(fmt.Sprint(i))); got.State != approvals.Pending {
				t.Errorf("%q: %+v", text, got)
			}
		}
	})
}

// TestWaitingOnAnotherReplica: an answer wakes the waiting calls of all replicas.
func TestWaitingOnAnotherReplica(t *testing.T) {
	onEveryRedis(t, func(t *testing.T, open func() *redisstore.Store) {
		one, two := watching(t, open(), approvals.Options{}), watching(t, open(), approvals.Options{})
		waitBoth := func(n int) {
			t.Helper()
			check.Until(t, fmt.Sprintf("%d calls to wait at each", n), func() (bool, string) {
				a, b := one.Stats().Waiting, two.Stats().Waiting
				return int(a) == n && int(b) == n, fmt.Sprintf("%d wait at the first, %d at the second", a, b)
			})
		}
		for i := range 5 {
			a := ask(t, one, request(fmt.Sprint(i)))
			got := make(chan approvals.Approval, 2)
			for _, k := range []*approvals.Service{one, two} {
				go func() {
					a, err := k.Wait(t.Context(), a.Tenant, a.ID)
					if err != nil {
						t.Error(err)
					}
					got <- a
				}()
			}
			waitBoth(1)
			approve(t, two, a, approvals.Answer{By: "eve"})
			for range 2 {
				if a := check.Received(t, got, "the answer"); a.State != approvals.Approved || a.By != "eve" {
					t.Errorf("got %+v", a)
				}
			}
			waitBoth(0)
		}
	})
}

// TestApprovalEvents: events come in order, and a reader resumes at its cursor.
func TestApprovalEvents(t *testing.T) {
	onEveryRedis(t, func(t *testing.T, open func() *redisstore.Store) {
		one, two := service(t, open(), approvals.Options{}), watching(t, open(), approvals.Options{})
		r := request("{}")
		a := ask(t, one, r)
		approve(t, two, a, approvals.Answer{})
		use, refusal := one.Redeem(t.Context(), a.ID, r)
		if refusal != nil {
			t.Fatal(refusal)
		}
		check.Must(t, one.Release(t.Context(), use))
		c := ask(t, service(t, open(), approvals.Options{TTL: time.Millisecond}), request("2"))
		check.Until(t, "the approval to expire", func() (bool, string) {
			got, err := one.Get(t.Context(), c.Tenant, c.ID)
			return err == nil && got.State == approvals.Expired, fmt.Sprint(got, err)
		})

		enough := errors.New("enough")
		read := func(after string, n int) (kinds []string, last string) {
			err := two.Events(t.Context(), a.Tenant, after, func(e approvals.Event) error {
				if e.Kind == approvals.EventsStart {
					return nil
				}
				kinds, last = append(kinds, string(e.Kind)), e.ID
				if e.Approval.Tenant != a.Tenant || n > 1 && e.Approval.ID != a.ID && e.Approval.ID != c.ID ||
					e.Approval.Preview == "" {
					t.Errorf("got %+v", e)
				}
				if len(kinds) == n {
					return enough
				}
				return nil
			})
			if !errors.Is(err, enough) {
				t.Fatal(err)
			}
			return kinds, last
		}
		kinds, middle := read("0", 2)
		more, last := read(middle, 4)
		if got := fmt.Sprint(kinds, more); got != "[asked approved] [used released asked expired]" {
			t.Error(got)
		}
		woken := make(chan []string, 1)
		go func() {
			kinds, _ := read(last, 1)
			woken <- kinds
		}()
		ask(t, one, request("3"))
		if got := check.Received(t, woken, "the next event"); got[0] != "asked" {
			t.Error(got)
		}
	})
}

// TestMissedEvents: a reader whose cursor is too old is notified once that events were lost.
func TestMissedEvents(t *testing.T) {
	onEveryRedis(t, func(t *testing.T, open func() *redisstore.Store) {
		k := service(t, open(), approvals.Options{})
		for _, empty := range []bool{true, false} {
			if !empty {
				ask(t, k, request("1"))
			}
			ctx, cancel := context.WithTimeout(t.Context(), check.Patience)
			var kinds []string
			_ = k.Events(ctx, request("").Tenant, "1-1", func(e approvals.Event) error {
				if e.Kind == approvals.EventsStart {
					return nil
				}
				if kinds = append(kinds, string(e.Kind)); len(kinds) == 1 && empty {
					ask(t, k, request("0"))
				}
				if e.Kind == approvals.EventCreated {
					cancel()
				}
				return nil
			})
			cancel()
			if len(kinds) < 2 || kinds[0] != "missed" || strings.Count(fmt.Sprint(kinds), "missed") != 1 ||
				kinds[1] != "asked" {
				t.Errorf("empty %v: %v", empty, kinds)
			}
		}
	})
}

// TestApprovalsWithoutRedis: while Redis is unavailable no approval is redeemed, and an earlier one can be redeemed
// afterwards.
func TestApprovalsWithoutRedis(t *testing.T) {
	t.Parallel()
	for name, fault := range map[string]struct{ begin, end func(*redistest.Server) }{
		"frozen": {(*redistest.Server).Freeze, (*redistest.Server).Thaw},
		"full":   {(*redistest.Server).Fill, (*redistest.Server).Relieve},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := redistest.Start(t)
			// One replica notices the fault soon. The other is not disturbed by a busy machine.
			hasty := service(t, open(t, impatient(server.URL())), approvals.Options{})
			k := service(t, open(t, redisstore.Config{URL: server.URL()}), approvals.Options{})
			r := request("{}")
			a := approve(t, k, ask(t, k, r), approvals.Answer{})
			b := ask(t, k, request("1"))
			fault.begin(server)
			_, _, refusal := hasty.Create(t.Context(), request("2"))
			wantRefusal(t, "ask", refusal, "APPROVALS_UNAVAILABLE")
			if name == "full" { // Redis accepts no writes, but responds
				if got, err := k.Get(t.Context(), a.Tenant, a.ID); err != nil || got.State != approvals.Approved {
					t.Errorf("got %+v, %v", got, err)
				}
			}
			_, refusal = hasty.Redeem(t.Context(), b.ID, request("1"))
			if refusal == nil {
				t.Error("used")
			}
			if _, err := hasty.Approve(t.Context(), b.Tenant, b.ID, approvals.Answer{}); err == nil {
				t.Error("approved")
			}
			fault.end(server)
			check.Until(t, "Redis to be back", func() (bool, string) {
				got, err := hasty.Get(t.Context(), b.Tenant, b.ID)
				return err == nil && (got.State == approvals.Pending || name == "frozen"), fmt.Sprint(got, err)
			})

			_, refusal = k.Redeem(t.Context(), a.ID, r)
			wantRefusal(t, "used after", refusal, "")
		})
	}
}
