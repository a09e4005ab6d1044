package sim_test

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/capgate/capgate/health"
	"github.com/capgate/capgate/health/storetest"
	"github.com/capgate/capgate/internal/testkit/sim"
)

// TestHealth: under all faults of replicas, backends and the store, a backend is down only if two replicas have found
// it down, an empty or silent store erases no knowledge, and probes are bounded. Soon after the faults, all replicas
// agree with the truth.
//
// The runs include everything that a replica may conclude alone; most conclusions need two.
func TestHealth(t *testing.T) {
	var all healthTally
	check(t, func(w *sim.Simulation) { all.add(playHealthOf(w).ledger.tally) })
	t.Logf("%+v", all)
	if manyRuns() && (min(all.confirmed, all.alone, all.known, all.late) == 0 || all.late > all.confirmed/10) {
		t.Errorf("%+v, want some of all, and few of late replicas", all)
	}
}

// healthRun is a run of replicas that share the probing of backends.
type healthRun struct {
	*sim.Simulation
	rng       *rand.Rand // used only by the driver's goroutine
	config    health.Config
	heartbeat time.Duration
	stale     time.Duration
	reconcile time.Duration
	most      int // concurrent probes per replica
	longest   time.Duration
	pace      time.Duration // least time between two notices of a shard

	store    *storetest.Store
	silent   bool // the store does not answer
	refusing bool // it refuses connections
	readOnly bool
	promote  func() // fails over to a copy; nil if there is none

	backends map[string]*simBackend
	fleets   []health.Fleet
	replicas []*healthReplica
	ledger   *healthLedger
}

func playHealth(w *sim.Simulation) { playHealthOf(w) }

func playHealthOf(w *sim.Simulation) *healthRun {
	p := newHealthRun(w)
	w.Faults = p.faults
	for i := range 3 + p.rng.IntN(2) {
		r := &healthReplica{p: p, name: fmt.Sprint("r", i), ahead: time.Duration(p.rng.Int64N(int64(time.Hour)))}
		p.replicas = append(p.replicas, r)
		r.boot()
	}
	w.Storm(90 * time.Second)
	p.heal()
	w.Pass(p.bound())
	p.ledger.agree("after the faults")
	late := &healthReplica{p: p, name: "late", ahead: -time.Hour}
	p.replicas = append(p.replicas, late)
	late.boot()
	w.Pass(2*p.heartbeat + 3*time.Second)
	p.ledger.agree("with one more replica")
	p.ledger.count(4*p.config.Interval, w.Pass)
	p.ledger.agree("at the end")
	for _, r := range p.replicas {
		r.kill()
	}
	w.Stop()
	return p
}

func newHealthRun(w *sim.Simulation) *healthRun {
	p := &healthRun{Simulation: w, rng: w.Rand("health"), backends: map[string]*simBackend{}}
	p.config = health.Config{Interval: 5 * time.Second, Timeout: time.Second, Jitter: 0.1, Rise: 1 + p.rng.IntN(3),
		Fall: 1 + p.rng.IntN(3)}
	p.heartbeat = []time.Duration{2 * time.Second, 4 * time.Second}[p.rng.IntN(2)]
	p.stale = 20 * time.Second
	p.reconcile = []time.Duration{10 * time.Second, 30 * time.Second}[p.rng.IntN(2)]
	p.most = []int{1, 2, 64}[p.rng.IntN(3)]
	p.longest = []time.Duration{3 * time.Second, 12 * time.Second, 40 * time.Second}[p.rng.IntN(3)]
	p.store = storetest.New(func() time.Time { return time.Now().Add(17 * time.Hour) })
	p.pace = []time.Duration{0, 300 * time.Millisecond, 3 * time.Second}[w.Seed%3]
	p.store.Pace(p.pace)
	n := 0
	for i, size := range []int{3, 2} {
		f := health.Fleet{Capability: fmt.Sprint("c", i), Config: p.config}
		for range size {
			addr := fmt.Sprintf("b%d:1", n)
			n++
			f.Backends = append(f.Backends, addr)
			p.backends[addr] = &simBackend{stable: n%2 == 0}
		}
		p.fleets = append(p.fleets, f)
	}
	p.backends["b9:1"] = &simBackend{}
	p.ledger = newHealthLedger(p)
	return p
}

// bound returns the time after the last fault by which all replicas agree with the truth.
func (p *healthRun) bound() time.Duration {
	longer := func(d time.Duration) time.Duration { return d + time.Duration(p.config.Jitter*float64(d)) }
	const command = 5 * time.Second                                         // a command without a response
	joined := command + p.heartbeat + p.heartbeat/4                         // each replica knows the living ones
	probed := longer(max(p.config.Interval, p.stale/2)) + p.config.Timeout  // the first probe after it
	turns := time.Duration(max(p.config.Rise, p.config.Fall))               // the required number of probes
	state := turns * (longer(p.config.Interval) + p.config.Timeout)         //
	confirmed := command + p.reconcile + p.reconcile/5 + 2*p.config.Timeout // an event was missed
	notices := 3 * (p.pace + p.pace/4)                                      // failure, confirmation, and earlier ones
	return joined + probed + state + confirmed + notices + p.heartbeat/4 + 2*time.Second
}

// simBackend is a backend.
type simBackend struct {
	state  string // one of ways; "" if it is up
	stable bool   // it does not change
}

// The ways in which a backend can be down.
const (
	refuses  = "refuses connections"
	hangs    = "hangs"
	notReady = "is not ready"
)

// faults returns the possible faults.
func (p *healthRun) faults() (all []sim.Event) {
	for _, r := range p.replicas {
		all = append(all, r.faults()...)
	}
	for _, addr := range sortedKeys(p.backends) {
		b := p.backends[addr]
		if b.stable {
			continue
		}
		for _, way := range []string{"", refuses, hangs, notReady} {
			if way != b.state {
				all = append(all, sim.Fault(fmt.Sprintf("%s %s", addr, cmp.Or(way, "is up")), func() { b.state = way }))
			}
		}
	}
	all = append(all, sim.Fault("the configuration changes", p.reload))
	return append(all, p.storeFaults()...)
}

// reload adds a backend to a fleet, or removes it. Each replica reloads at a different time.
func (p *healthRun) reload() {
	const addr = "b9:1"
	p.fleets = slices.Clone(p.fleets)
	f := &p.fleets[1]
	if i := slices.Index(f.Backends, addr); i >= 0 {
		f.Backends = slices.Delete(slices.Clone(f.Backends), i, i+1)
	} else {
		f.Backends = append(slices.Clone(f.Backends), addr)
	}
	for _, r := range p.replicas {
		if l := r.life; l != nil {
			l.expect(" reads its configuration", nil, l.set)
		}
	}
}

// storeFaults returns the possible faults of the store.
func (p *healthRun) storeFaults() []sim.Event {
	all := []sim.Event{
		sim.Fault("the store is emptied", func() { p.store.Wipe(); p.promote = nil }),
		sim.Fault("the store is silent", func() { p.during(&p.silent) }),
		sim.Fault("the store refuses connections", func() { p.store.Disconnect(); p.during(&p.refusing) }),
		sim.Fault("the store is read-only", func() { p.during(&p.readOnly) }),
		sim.Fault("the store's copy falls behind", func() { p.promote = p.store.Copy() }),
	}
	if p.promote != nil {
		all = append(all, sim.Fault("the store fails over", func() { p.promote(); p.promote = nil }))
	}
	return all
}

// during sets a fault for a time.
func (p *healthRun) during(fault *bool) {
	*fault = true
	p.After(p.time(), func() { p.Expect("a fault ends", nil, func() { *fault = false }) })
}

// time returns the duration of a fault.
func (p *healthRun) time() time.Duration { return time.Duration(p.rng.Int64N(int64(p.longest))) }

// heal ends all faults.
func (p *healthRun) heal() {
	p.silent, p.refusing, p.readOnly = false, false, false
	for _, r := range p.replicas {
		r.cut, r.blind, r.paused = false, false, false
		if r.life == nil {
			r.boot()
		} else {
			r.life.set()
		}
	}
}

// set passes the current fleets to a life.
func (l *healthLife) set() {
	l.core.Set(l.now(), slices.Clone(l.p.fleets))
	l.touched()
}
