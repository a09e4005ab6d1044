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

// limitsLife is a life of a replica with limits.
type limitsLife = life[*ratelimit.Limiter]

// admissions are the admitted calls of a run, and all by which there may be more of them than the limit.
type admissions struct {
	w        *sim.Simulation
	bounds   tenant.Bounds
	together bool // what happens to connections happens to those of all replicas
	// between the first replica that Redis answers again and the last; they have used their shares
	apart time.Duration

	// These belong to the driver.
	lives  map[*limitsLife]bool
	alone  map[*limitsLife][]time.Duration // when a replica granted from its own share
	stored stored                          // by Redis
	lost   []loss

	mu      sync.Mutex
	at      []time.Duration
	running map[*limitsLife]int
}

// stored is what Redis knows of a limit.
type stored struct {
	calls   int            // of a quota
	permits map[string]int // by replica
}

// loss is what a failover has taken from Redis.
type loss struct {
	at             time.Duration
	calls, permits int
}

func newAdmissions(w *sim.Simulation, b tenant.Bounds) *admissions {
	return &admissions{w: w, bounds: b, lives: map[*limitsLife]bool{}, alone: map[*limitsLife][]time.Duration{},
		running: map[*limitsLife]int{}}
}

// look reads what Redis knows, and notes which replicas have used their own shares.
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

// lose notes what a server lacks that was promoted, or has restarted without its data.
func (d *admissions) lose(by *miniredis.Miniredis) {
	lost, now := loss{at: d.w.Now()}, read(by)
	lost.calls = max(d.stored.calls-now.calls, 0)
	for name, n := range d.stored.permits {
		lost.permits += max(n-now.permits[name], 0)
	}
	d.lost = append(d.lost, lost)
}

// begin records a call that begins. It ends with done, or with its replica.
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

// check returns an error if there are more calls than there may be.
//
// While Redis answers in time and does not fail over, the limit is exact. A replica that Redis does not answer uses its
// share besides, and what a failover has forgotten is used once more.
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
		// A call that began then may run.
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

// grant returns the greatest number of calls that a replica grants itself at a time: to those that wait, and a lease.
func (d *admissions) grant(limit, leases int) int { return callers + max(limit/leases, 1) }

// quotaAlone is the number of calls beyond a quota that replicas may have made by their own shares: a share of each but
// one. A replica that starts again is another one.
func (d *admissions) quotaAlone() (sum int) {
	quota := d.bounds.PerDay
	share := max(quota/limitedReplicas, 1)
	for _, grants := range d.alone {
		sum += min(len(grants)*d.grant(quota, 64), share)
	}
	return min(sum, (len(d.lives)-1)*share)
}

// permitsAlone is the number of concurrent calls beyond a limit by own shares since a time: a share of each replica but
// one.
func (d *admissions) permitsAlone(since time.Duration) (sum int) {
	share := max(d.bounds.Concurrent/limitedReplicas, 1)
	for l, grants := range d.alone {
		if len(grants) > 0 && grants[len(grants)-1] >= since && l.ctx.Err() == nil {
			sum += share
		}
	}
	return min(sum, (limitedReplicas-1)*share)
}

// leaseKept is the time for which a replica may keep calls that it has leased and does not use.
const leaseKept = 3 * time.Second

// rateAlone returns the number of calls beyond a rate by own shares in a time.
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
	lease := max(rate/4, 1)*limitedReplicas + 1 // one, as calls are whole
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
