package extauthz_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"

	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/internal/testkit/clocktest"
	"github.com/capgate/capgate/policy/extauthz"
	openparallaxv1 "github.com/capgate/capgate/proto/openparallax/v1"
)

func newClock() *clocktest.Clock { return clocktest.New(time.Unix(2_000_000_000, 0)) }

// judge judges once, and reports whether the verdict was cached.
func judge(t *testing.T, s *extauthz.Shields, c *call.Call, args string) bool {
	t.Helper()
	a, refusal := s.Check(check.Context(t), c, []byte(args))
	if refusal != nil || a.Failed {
		t.Fatalf("%+v, %v", a, refusal)
	}
	return a.Cached
}

func TestVerdictsExpire(t *testing.T) {
	t.Parallel()
	onBothForms(t, func(t *testing.T, start func(*server) extauthz.Config) {
		began := newClock().Now()
		for name, test := range map[string]struct {
			evaluated, expires time.Duration // relative to the clock; 0 means absent
			kept               time.Duration
		}{
			"never said":           {0, 0, 0},
			"in the past":          {0, -time.Second, 0},
			"a minute":             {0, time.Minute, time.Minute},
			"more than an hour":    {0, 5 * time.Hour, time.Hour},
			"a clock that is fast": {time.Hour, time.Hour + time.Minute, time.Minute},
			"a clock that is slow": {-time.Hour, -time.Hour + time.Minute, 0},
			"expired when made":    {time.Minute, time.Second, 0},
		} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				clock := newClock()
				srv := &server{answer: func(context.Context, question) (answer, error) {
					a := answer{decision: "ESCALATE", reasoning: "why", hash: "h"}
					if test.evaluated != 0 {
						a.evaluated = began.Add(test.evaluated)
					}
					if test.expires != 0 {
						a.expires = began.Add(test.expires)
					}
					return a, nil
				}}
				s := judges(t, start(srv), extauthz.Options{Now: clock.Now})
				if judge(t, s, forecast(), "") {
					t.Fatal("known before it was asked")
				}
				if test.kept > 0 {
					clock.Set(began.Add(test.kept - time.Nanosecond))
					a, _ := s.Check(check.Context(t), forecast(), nil)
					if (a != extauthz.Answer{Verdict: call.Ask, Reason: "why", ActionHash: "h", Cached: true}) {
						t.Errorf("just before its end: %+v", a)
					}
				}
				clock.Set(began.Add(test.kept))
				if judge(t, s, forecast(), "") {
					t.Error("still known at its end")
				}
				if n := len(srv.questions()); n != 2 {
					t.Errorf("asked %d times", n)
				}
			})
		}
	})
}

// raw returns one verdict, which may be invalid.
type raw struct {
	openparallaxv1.UnimplementedShieldServiceServer
	verdict *openparallaxv1.Verdict
}

func (r raw) Evaluate(context.Context, *openparallaxv1.EvaluateRequest) (*openparallaxv1.EvaluateResponse, error) {
	return &openparallaxv1.EvaluateResponse{Verdict: r.verdict}, nil
}

// The unit of times in the gRPC form is not documented.
func TestTimesInMilliseconds(t *testing.T) {
	t.Parallel()
	clock := newClock()
	began := clock.Now()
	for name, unit := range map[string]func(time.Time) int64{
		"seconds": time.Time.Unix, "milliseconds": time.Time.UnixMilli,
	} {
		ln := listen(t)
		g := grpc.NewServer()
		openparallaxv1.RegisterShieldServiceServer(g, raw{verdict: &openparallaxv1.Verdict{
			Decision: openparallaxv1.VerdictDecision_ALLOW, EvaluatedAt: unit(began),
			ExpiresAt: unit(began.Add(time.Minute)),
		}})
		go func() { _ = g.Serve(ln) }()
		t.Cleanup(g.Stop)
		clock.Set(began)
		s := judges(t, extauthz.Config{
			Name: "main", Address: ln.Addr().String(), Timeout: check.Patience, Cache: 1,
		}, extauthz.Options{Now: clock.Now})
		first := judge(t, s, forecast(), "")
		clock.Set(began.Add(time.Minute - 1))
		second := judge(t, s, forecast(), "")
		clock.Set(began.Add(time.Minute))
		if third := judge(t, s, forecast(), ""); first || !second || third {
			t.Errorf("%s: it was not kept for a minute: known at once %t, before its end %t, at its end %t", name,
				first, second, third)
		}
	}
}

// TestWhatAVerdictIsKeptUnder: an action that differs in any field has its own verdict, and verdicts of other tenants
// are not used.
func TestWhatAVerdictIsKeptUnder(t *testing.T) {
	t.Parallel()
	onBothForms(t, func(t *testing.T, start func(*server) extauthz.Config) {
		srv := &server{answer: func(context.Context, question) (answer, error) {
			return answer{decision: "ALLOW", expires: time.Now().Add(time.Hour)}, nil
		}}
		c := start(srv)
		s := judges(t, c, extauthz.Options{})
		check.Must(t, s.Replace([]extauthz.Config{c}, map[string]string{"weather": "main", "weathe": "main"}))
		first := forecast()
		judge(t, s, first, `{"a":1}`)
		for name, change := range map[string]func(*call.Call) string{
			"tenant": func(c *call.Call) string { c.Tenant = "acm"; return `{"a":1}` },
			"capability": func(c *call.Call) string {
				c.Capability, c.Tool = "weathe", "rGet_Forecast"
				return `{"a":1}`
			},
			"tool":      func(c *call.Call) string { c.Tool = "get_Forecast"; return `{"a":1}` },
			"arguments": func(*call.Call) string { return `{"a": 1}` },
		} {
			c := *first
			if args := change(&c); judge(t, s, &c, args) {
				t.Errorf("another %s has the same verdict", name)
			}
		}
		other := *first
		other.User, other.Agent, other.Session = "bob", "x", "y" // fields that Shield does not get
		if !judge(t, s, &other, `{"a":1}`) {
			t.Error("asked again for another user, whom Shield does not see")
		}
	})
}

// TestWordsThatRunTogether: an action does not get the verdict of another one whose concatenated fields are equal. A
// cached verdict applies to the arguments that were checked.
func TestWordsThatRunTogether(t *testing.T) {
	t.Parallel()
	c := serveGRPC(t, &server{answer: func(context.Context, question) (answer, error) {
		return answer{decision: "ALLOW", expires: time.Now().Add(time.Hour)}, nil
	}}, nil)
	s := judges(t, c, extauthz.Options{})
	named, nameless := forecast(), forecast()
	named.Tool, nameless.Tool = "tool_call", "" // whose type is tool_call
	judge(t, s, named, "{}")
	if a, refusal := s.Check(check.Context(t), nameless, []byte("tool_call{}")); refusal == nil ||
		refusal.Reason != "ARGUMENTS_INVALID" {
		t.Errorf("%+v, %v", a, refusal)
	}
}

func TestCacheIsBounded(t *testing.T) {
	t.Parallel()
	srv := &server{answer: func(context.Context, question) (answer, error) {
		return answer{decision: "ALLOW", expires: time.Now().Add(time.Hour)}, nil
	}}
	c := serveGRPC(t, srv, nil)
	c.Cache = 2
	s := judges(t, c, extauthz.Options{})
	for _, n := range []int{1, 2, 3} {
		judge(t, s, forecast(), fmt.Sprintf(`{"n":%d}`, n))
	}
	if judge(t, s, forecast(), `{"n":1}`) {
		t.Error("a cache of two has the first of three")
	}
	if !judge(t, s, forecast(), `{"n":3}`) {
		t.Error("a cache of two has lost the last of three")
	}
	c.Cache = 0
	s = judges(t, c, extauthz.Options{})
	for range 2 {
		if judge(t, s, forecast(), "") {
			t.Error("a cache of none has something")
		}
	}
}

// TestOneQuestionForAll: many concurrent calls with the same action cause one request.
func TestOneQuestionForAll(t *testing.T) {
	t.Parallel()
	onBothForms(t, func(t *testing.T, start func(*server) extauthz.Config) {
		const callers = 50
		ready := make(chan struct{}, callers)
		srv := &server{answer: func(context.Context, question) (answer, error) {
			for range callers {
				<-ready
			}
			return answer{decision: "ALLOW", expires: time.Now().Add(time.Hour)}, nil
		}}
		s := judges(t, start(srv), extauthz.Options{})
		var all sync.WaitGroup
		for range callers {
			all.Go(func() {
				ready <- struct{}{}
				if a, refusal := s.Check(check.Context(t), forecast(), nil); a.Verdict != call.Allow || refusal != nil {
					t.Errorf("%+v, %v", a, refusal)
				}
			})
		}
		check.Ended(t, &all, "the callers")
		if n := len(srv.questions()); n != 1 {
			t.Errorf("asked %d times", n)
		}
	})
}

// TestPlacesAreBounded: different actions are checked concurrently up to a limit. The others wait.
func TestPlacesAreBounded(t *testing.T) {
	t.Parallel()
	onBothForms(t, func(t *testing.T, start func(*server) extauthz.Config) {
		const places, callers = 64, 150
		var now, most atomic.Int64
		full := make(chan struct{})
		filled := sync.OnceFunc(func() { close(full) }) // all places are taken again while the first calls end
		srv := &server{answer: func(context.Context, question) (answer, error) {
			n := now.Add(1)
			defer now.Add(-1)
			for old := most.Load(); n > old && !most.CompareAndSwap(old, n); old = most.Load() {
			}
			if n == places {
				filled()
			}
			<-full
			return allow(), nil
		}}
		s := judges(t, start(srv), extauthz.Options{})
		var all sync.WaitGroup
		for n := range callers {
			all.Go(func() {
				a, refusal := s.Check(check.Context(t), forecast(), fmt.Appendf(nil, `{"n":%d}`, n))
				if a.Failed || refusal != nil {
					t.Errorf("%+v, %v", a, refusal)
				}
			})
		}
		check.Ended(t, &all, "the callers")
		if most.Load() != places || len(srv.questions()) != callers {
			t.Errorf("%d at once, %d in all", most.Load(), len(srv.questions()))
		}
	})
}

// TestWhoLeavesIsRefused: a call is rejected after its deadline, whatever on_failure says, and its request is canceled.
func TestWhoLeavesIsRefused(t *testing.T) {
	t.Parallel()
	onBothForms(t, func(t *testing.T, start func(*server) extauthz.Config) {
		asked, ended := make(chan struct{}), make(chan struct{})
		srv := &server{answer: func(ctx context.Context, _ question) (answer, error) {
			close(asked)
			<-ctx.Done()
			close(ended)
			return allow(), nil
		}}
		c := start(srv)
		c.OnFailure = call.Allow
		s := judges(t, c, extauthz.Options{})
		ctx, cancel := context.WithCancel(t.Context())
		go func() {
			<-asked
			cancel()
		}()
		a, refusal := s.Check(ctx, forecast(), nil)
		if refusal == nil || refusal.Reason != "SHIELD_UNAVAILABLE" || a.Verdict != call.Block {
			t.Errorf("%+v, %v", a, refusal)
		}
		check.Received(t, ended, "the Shield to see that its caller left")
		for _, stats := range s.Each() {
			if stats.Unreachable+stats.Malformed != 0 {
				t.Errorf("who leaves counts as a failure of Shield: %+v", stats)
			}
		}
	})
}
