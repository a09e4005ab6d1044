package sim_test

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/alicebob/miniredis/v2"

	"github.com/capgate/capgate/internal/ratelimit"
	"github.com/capgate/capgate/internal/tenant"
	"github.com/capgate/capgate/internal/testkit/sim"
)

// limitsLife is one life of a replica with limits.
type limitsLife = life[*ratelimit.Limiter]

// admissions records the admitted calls of a run, and every event by which they may exceed the limit.
type admissions struct {
	w        *sim.Simulation
	bounds   tenant.Bounds
	together bool // connection faults affect all replicas
	// Time between the first replica that reaches Redis again and the last. Meanwhile, replicas use their shares.
	apart time.Duration

	// The following fields belong to the driver.
	lives  map[*limitsLife]bool
	alone  map[*limitsLife][]time.Duration // times at which a replica granted from its own share
	stored stored                          // data in Redis
	lost   []loss

	mu      sync.Mutex
	at      []time.Duration
	running map[*limitsLife]int
}

// stored is Redis' data about a limit.
type stored struct {
	calls   int            // of a quota
	permits map[string]int // by replica
}

// loss is the data that a failover has lost.
type loss struct {
	at             time.Duration
	calls, permits int
}

func newAdmissions(w *sim.Simulation, b tenant.Bounds) *admissions {
	return &admissions{w: w, bounds: b, lives: map[*limitsLife]bool{}, alone: map[*limitsLife][]time.Duration{},
		running: map[*limitsLife]int{}}
}

// look reads the data in Redis, and records which replicas have used their own shares.
func (d *admissions) look(m *miniredis.Miniredis) {
	d.stored = read(m)
	for l := range d.lives {
		for n := l.part.Stats().OwnShare - int64(len(d.alone[l])); n > 0; n-- {
			d.alone[l] = append(d.alone[l], d.w.Now())
		}
	}
}

func read(m *miniredis.Miniredis) (s stored) {
	s.permits = map[string]int{}
	for _, key := range m.Keys() {
		switch {
		case strings.Contains(key, ":day:"):
			_, _ = fmt.Sscan(m.HGet(key, "="), &s.calls)
		case strings.Contains(key, ":places:"):
			names, _ := m.HKeys(key)
			for _, name := range names {
				var held int
				_, _ = fmt.Sscan(m.HGet(key, name), &held)
				s.permits[name] = held
			}
		}
	}
	return s
}

// lose records the data that a promoted or emptied server lacks.
func (d *admissions) lose(by *miniredis.Miniredis) {
	lost, now := loss{at: d.w.Now()}, read(by)
	lost.calls = max(d.stored.calls-now.calls, 0)
	for name, n := range d.stored.permits {
		lost.permits += max(n-now.permits[name], 0)
	}
	d.lost = append(d.lost, lost)
}

// begin records the start of a call. The call ends with done, or with its replica.
func (d *admissions) begin(l *limitsLife) (done func()) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.w.Note("a call is admitted")
	d.at = append(d.at, d.w.Now())
	d.running[l]++
	return func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		d.running[l]--
	}
}

// check returns an error if there are more calls than permitted.
//
// While Redis responds in time and does not fail over, the limit is exact. A replica without a response uses its share
// in addition, and data lost in a failover is used again.
func (d *admissions) check() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if quota := d.bounds.PerDay; quota > 0 {
		if most := quota + d.quotaAlone() + d.lostSince(0).calls; len(d.at) > most {
			return fmt.Errorf("%d calls of a quota of %d, want %d at most", len(d.at), quota, most)
		}
	}
	if limit := d.bounds.Concurrent; limit > 0 {
		running := 0
		for l, n := range d.running {
			if l.ctx.Err() == nil {
				running += n
			}
		}
		// A call that began before may be running.
		recent := d.w.Now() - permitLifetime - longestCall
		if most := limit + d.permitsAlone(recent) + d.lostSince(recent).permits; running > most {
			return fmt.Errorf("%d calls at once of %d, want %d at most", running, limit, most)
		}
	}
	return nil
}

func (d *admissions) lostSince(at time.Duration) (sum loss) {
	for _, l := range d.lost {
		if l.at >= at {
			sum.calls, sum.permits = sum.calls+l.calls, sum.permits+l.permits
		}
	}
	return sum
}

// grant returns the largest number of calls that a replica grants itself at a time: to waiting calls, and as a lease.
func (d *admissions) grant(limit, leases int) int { return callers + max(limit/leases, 1) }

// quotaAlone returns the number of calls beyond a quota that replicas may have made from their own shares: one share
// for each but one. A restarted replica counts as another one.
func (d *admissions) quotaAlone() (sum int) {
	quota := d.bounds.PerDay
	share := max(quota/limitedReplicas, 1)
	for _, grants := range d.alone {
		sum += min(len(grants)*d.grant(quota, 64), share)
	}
	return min(sum, (len(d.lives)-1)*share)
}

// permitsAlone returns the number of concurrent calls beyond a limit from own shares since a time: one share for each
// replica but one.
func (d *admissions) permitsAlone(since time.Duration) (sum int) {
	share := max(d.bounds.Concurrent/limitedReplicas, 1)
	for l, grants := range d.alone {
		if len(grants) > 0 && grants[len(grants)-1] >= since && l.ctx.Err() == nil {
			sum += share
		}
	}
	return min(sum, (limitedReplicas-1)*share)
}

// leaseKept is the time for which a replica may keep leased calls that it does not use.
const leaseKept = 3 * time.Second

// rateAlone returns the number of calls beyond a rate from own shares in a time.
func (d *admissions) rateAlone(from, to time.Duration) (sum float64) {
	rate, lease := float64(d.bounds.CallsPerSecond)/limitedReplicas, float64(max(d.bounds.CallsPerSecond/4, 1))
	for _, grants := range d.alone {
		n := 0
		for _, at := range grants {
			if at >= from-leaseKept && at <= to {
				n++
			}
		}
		sum += min(float64(n*d.grant(d.bounds.CallsPerSecond, 4)), lease+rate*(to-from+leaseKept).Seconds())
	}
	return sum
}

func (d *admissions) burst() int { return max(d.bounds.Burst, d.bounds.CallsPerSecond/10) }

// checkRate checks the calls of every interval.
func (d *admissions) checkRate() {
	d.mu.Lock()
	defer d.mu.Unlock()
	b := d.bounds
	if b.CallsPerSecond == 0 {
		return
	}
	burst, rate := float64(d.burst()), float64(b.CallsPerSecond)
	lease := max(rate/4, 1)*limitedReplicas + 1 // one because calls are whole
	slices.Sort(d.at)
	for i, from := range d.at {
		for j, to := range d.at[i:] {
			most := burst + rate*(to-from).Seconds() + lease
			if float64(j+1) <= most {
				continue
			}
			for _, l := range d.lost { // each may have filled the bucket
				if l.at >= from && l.at <= to {
					most += burst
				}
			}
			if d.together {
				most += rate * d.apart.Seconds() * (limitedReplicas - 1) / limitedReplicas
			} else {
				most += d.rateAlone(from, to)
			}
			if float64(j+1) > most {
				d.w.Fail("%d calls in %v, want %v at most: %+v", j+1, to-from, most, b)
				return
			}
		}
	}
}
