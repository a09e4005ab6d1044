package router_test

import (
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/router"
)

// patient returns a caller with a deadline. Its call takes work, and the caller leaves at its deadline.
func (r *limited) patient(tenant string, deadline, work time.Duration) (answered bool) {
	gone := time.After(deadline)
	began := time.Now()
	permit := make(chan router.PermitResult, 1)
	var left atomic.Bool
	w, a := r.fleet().AcquirePermit(router.PermitRequest{Tenant: tenant, Left: deadline, Whole: true},
		func() func(router.PermitResult) bool {
			return func(a router.PermitResult) bool {
				if left.Load() {
					return false
				}
				permit <- a
				return true
			}
		})
	if w == nil {
		permit <- a
	}
	select {
	case a = <-permit:
	case <-gone:
		left.Store(true)
		w.Cancel()
		synctest.Wait()
		select {
		case a = <-permit:
			if a.Refusal == nil {
				a.Claim.Done(router.Outcome{})
			}
		default:
		}
		return false
	}
	if a.Refusal != nil {
		return false
	}
	if time.Since(began)+work > deadline {
		<-gone // the gateway ends the call at its backend
		a.Claim.Done(router.Outcome{})
		return false
	}
	<-time.After(work)
	a.Claim.Done(router.Outcome{Class: router.Succeeded, Latency: work, Took: work})
	return true
}

// Under overload, the backends do the work of calls that can end by their deadline, and little else.
func TestLimitUnderOverload(t *testing.T) {
	t.Parallel()
	const permits, mean, lasts = 4, 100 * time.Millisecond, 20 * time.Second
	for name, test := range map[string]struct {
		load      float64
		deadlines []time.Duration
		queue     int
		least     float64 // share of the possible responses
	}{
		"twice the calls":     {2, []time.Duration{time.Second}, 100, 0.8},
		"ten times the calls": {10, []time.Duration{time.Second}, 100, 0.8},
		"a short queue":       {2, []time.Duration{time.Second}, 10, 0.8},
		"patience of many kinds": {2, []time.Duration{400 * time.Millisecond, 2 * time.Second, time.Hour}, 100,
			0.8},
		"as many calls as can be":    {0.8, []time.Duration{time.Second}, 100, 0.9},
		"deadlines of two calls":     {2, []time.Duration{250 * time.Millisecond}, 100, 0.7},
		"a queue that is very large": {2, []time.Duration{2 * time.Second}, 10_000, 0.8},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			check.Bubble(t, func(t *testing.T) {
				random := rand.New(rand.NewPCG(1, 2))
				r := newLimited(t, nil, nil,
					router.Limit{PerBackend: permits, Queue: router.Queue{Size: test.queue}}, named(1)...)
				var work sync.WaitGroup
				var calls, answers int
				var mu sync.Mutex
				for began := time.Now(); time.Since(began) < lasts; calls++ {
					deadline := test.deadlines[random.IntN(len(test.deadlines))]
					takes := mean/2 + time.Duration(random.Int64N(int64(mean)))
					work.Go(func() {
						if r.patient("a", deadline, takes) {
							mu.Lock()
							defer mu.Unlock()
							answers++
						}
					})
					<-time.After(time.Duration(random.ExpFloat64() * float64(mean) / permits / test.load))
				}
				work.Wait()
				possible := min(calls, int(permits*lasts/mean))
				if got := float64(answers) / float64(possible); got < test.least {
					t.Errorf("%d answers of %d that are possible", answers, possible)
				}
				r.end()
			})
		})
	}
}

// A tenant whose calls are late is served newest first. A full queue then drops its oldest call for a new one, and
// another tenant's calls still take turns with its own.
func TestLateCallsAreServedNewestFirst(t *testing.T) {
	t.Parallel()
	check.Bubble(t, func(t *testing.T) {
		r := newLimited(t, nil, nil,
			router.Limit{PerBackend: 1, Queue: router.Queue{Size: 4, Wait: 10 * time.Second}}, named(1)...)
		release := r.hold(router.PermitRequest{})
		ends := make(chan string, 8)
		begin := func(tenant, name string) {
			r.start(router.PermitRequest{Tenant: tenant}, func(a router.PermitResult) {
				if a.Refusal != nil {
					name = "no " + name
				}
				ends <- name
				a.Claim.Done(router.Outcome{})
			})
		}
		for _, name := range []string{"1", "2", "3"} {
			begin("a", name)
		}
		<-time.After(5100 * time.Millisecond)
		begin("b", "other")
		begin("a", "4") // instead of 1
		if first := <-ends; first != "no 1" {
			t.Errorf("the full queue drops %s", first)
		}
		release()
		for _, want := range []string{"4", "other", "3", "2"} {
			if got := <-ends; got != want {
				t.Errorf("served %s, want %s", got, want)
			}
		}
		r.end()
	})
}

// A call waits only while its deadline leaves as much time as nearly all calls need; one that streams its answer, or
// a call of a fleet whose calls are not known, waits until its deadline.
func TestCallsThatCannotEndInTimeDoNotWait(t *testing.T) {
	t.Parallel()
	check.Bubble(t, func(t *testing.T) {
		r := newLimited(t, nil, nil, router.Limit{PerBackend: 1}, named(1)...)
		short := router.PermitRequest{Left: 900 * time.Millisecond, Whole: true}
		waits := func(e router.PermitRequest) time.Duration {
			began := time.Now()
			ended := make(chan router.PermitResult, 1)
			w := r.start(e, func(a router.PermitResult) { ended <- a })
			select {
			case a := <-ended:
				if a.Refusal == nil || a.Refusal.Reason != "CONCURRENCY_LIMIT" || a.Refusal.RetryAfter <= 0 {
					t.Errorf("%+v", a)
				}
			case <-time.After(e.Left):
				w.Cancel()
			}
			return time.Since(began)
		}
		release := r.hold(router.PermitRequest{})
		if got := waits(short); got != short.Left {
			t.Errorf("of unknown calls, one waits %v", got)
		}
		release()
		for range 5 {
			_, a := r.fleet().AcquirePermit(short, nil)
			a.Claim.Done(router.Outcome{Class: router.Succeeded, Took: time.Second})
		}
		release = r.hold(router.PermitRequest{})
		if got := waits(short); got != 0 {
			t.Errorf("a call that cannot end in time waits %v", got)
		}
		if got := waits(router.PermitRequest{Left: short.Left}); got != short.Left {
			t.Errorf("a stream waits %v", got)
		}
		long := router.PermitRequest{Left: 3 * time.Second, Whole: true}
		if got := waits(long); got < 2*time.Second || got > 2100*time.Millisecond {
			t.Errorf("a call of 3 s waits %v", got)
		}
		late := chanOf(r, router.PermitRequest{Left: 1010 * time.Millisecond, Whole: true})
		<-time.After(20 * time.Millisecond)
		release()
		if a := <-late; a.Refusal == nil {
			t.Error("a permit for a call that cannot end in time any more")
		}
		if _, a := r.fleet().AcquirePermit(short, nil); a.Refusal != nil {
			t.Errorf("a permit is free, but %v", a.Refusal)
		}
		r.end()
	})
}
