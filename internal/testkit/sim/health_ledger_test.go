package sim_test

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/capgate/capgate/health"
)

// healthLedger records all probes and replicas. The invariants are checked against it.
type healthLedger struct {
	p      *healthRun
	bad    map[string]map[string]time.Duration // by backend and replica: time of the last bad probe
	late   map[string]time.Duration            // by replica: time of its last report that its probes are late
	probes map[string]int                      // by backend
	tally  healthTally
}

// healthTally counts transitions.
type healthTally struct {
	confirmed int // a backend is down, confirmed by two replicas
	alone     int // a backend is down, found by a replica that knew no other one
	known     int // a backend is unknown for a reason other than late probes
	late      int // a backend is down or unknown, without a replica whose probes are late
}

func (n *healthTally) add(o healthTally) {
	n.confirmed, n.alone, n.known, n.late = n.confirmed+o.confirmed, n.alone+o.alone, n.known+o.known, n.late+o.late
}

// oldest is the age of the oldest news that may still arrive: the longest faults of a run may follow each other.
const oldest = 90 * time.Second

func newHealthLedger(p *healthRun) *healthLedger {
	return &healthLedger{p: p, bad: map[string]map[string]time.Duration{}, late: map[string]time.Duration{},
		probes: map[string]int{}}
}

func (d *healthLedger) probed(_ *healthLife, addr string) { d.probes[addr]++ }

func (d *healthLedger) result(l *healthLife, addr string, ok bool) {
	if ok {
		return
	}
	if d.bad[addr] == nil {
		d.bad[addr] = map[string]time.Duration{}
	}
	d.bad[addr][l.id] = d.p.Now()
}

func (d *healthLedger) beats(l *healthLife, beat health.Heartbeat) {
	if beat.Digest.Late > d.p.stale {
		d.late[l.id] = d.p.Now()
	}
}

// recent reports whether an event was recent.
func (d *healthLedger) recent(at time.Duration) bool { return d.p.Now()-at < oldest }

// against returns the replicas with a recent bad probe of a backend.
func (d *healthLedger) against(addr string) (all []string) {
	for id, at := range d.bad[addr] {
		if d.recent(at) {
			all = append(all, id)
		}
	}
	slices.Sort(all)
	return all
}

// isLate reports whether a replica has recently reported that its probes are late.
func (d *healthLedger) isLate(id string) bool {
	at, said := d.late[id]
	return said && d.recent(at)
}

// anyLate reports whether any replica other than the given ones is late.
func (d *healthLedger) anyLate(except ...string) bool {
	for id := range d.late {
		if d.isLate(id) && !slices.Contains(except, id) {
			return true
		}
	}
	return false
}

// changed checks the transitions of a replica by one input and the following step. Only lasting ones count.
func (d *healthLedger) changed(l *healthLife, changes []health.Change) {
	last := map[string]*health.Snapshot{}
	for _, c := range changes {
		last[c.Snapshot.Capability] = c.Snapshot
	}
	for _, capability := range sortedKeys(last) {
		s := last[capability]
		before := map[string]health.State{}
		if old := l.snaps[s.Capability]; old != nil {
			for i := range old.Backends {
				before[old.Backends[i].Addr] = old.Backends[i].State
			}
		}
		l.snaps[s.Capability] = s
		for i := range s.Backends {
			b := &s.Backends[i]
			old := before[b.Addr]
			if old == b.State {
				continue
			}
			d.p.Note("%s: %s is %s, was %s: %s", l.name, b.Addr, b.State, old, b.Reason)
			switch b.State {
			case health.Down:
				d.down(l, b)
			case health.Unknown:
				d.unknown(l, s.Capability, b)
			case health.Up:
			}
		}
	}
}

// down checks that enough replicas have found a backend down.
func (d *healthLedger) down(l *healthLife, b *health.Backend) {
	against := d.against(b.Addr)
	switch replicas := l.core.Stats().Replicas; {
	case len(against) >= 2:
		d.tally.confirmed++
	case (replicas == 1 || l.replicas == 1) && len(against) == 1: // there was no other replica until now
		d.tally.alone++
	case replicas == 0 && slices.Contains(against, l.id): // this replica is isolated
		d.tally.alone++
	case len(against) == 1 && d.anyLate(against[0], l.id): // a replica whose probes are late confirms nothing
		d.tally.late++
	default:
		d.p.Fail("%s says that %s is down, as only %q found: %s; it knows %d replicas", l.name, b.Addr, against,
			b.Reason, replicas)
	}
}

// unknown checks that a state becomes unknown only for a reason.
func (d *healthLedger) unknown(l *healthLife, capability string, b *health.Backend) {
	expedited, some := l.expedited[capability]
	switch {
	case len(d.against(b.Addr)) > 0: // it may be down, but this is not confirmed
		d.tally.known++
	case l.core.Stats().Replicas == 0 && l.now().Sub(l.replied) > d.p.stale:
		d.tally.known++
	case some && d.recent(expedited): // until now, the probe for waiting calls counted
		d.tally.known++
	case d.isLate(b.By): // the replica that probes it
		d.tally.late++
	default:
		d.p.Fail("%s knows %s no longer, which no probe found down: %s", l.name, b.Addr, b.Reason)
	}
}

// bounded checks the number of a replica's operations in flight.
func (d *healthLedger) bounded(l *healthLife, work *health.Work) {
	switch {
	case l.probing > d.p.most:
		d.p.Fail("%s has %d probes in flight, want %d at most", l.name, l.probing, d.p.most)
	case l.reading > 4 || l.publishing > 1 || len(work.Publish) > 1024:
		d.p.Fail("%s has %d reads and %d publishes in flight, of %d reports", l.name, l.reading, l.publishing,
			len(work.Publish))
	}
}

// agree checks that all replicas agree with the truth.
func (d *healthLedger) agree(when string) {
	by := map[string]string{}
	for _, r := range d.p.replicas {
		stats := r.life.core.Stats()
		if n := len(d.p.replicas); stats.Replicas != n || stats.Agree != n || stats.Unpublished != 0 {
			d.p.Fail("%s, %s: %+v, want %d replicas", when, r.name, stats, n)
		}
		for _, f := range d.p.fleets {
			s := r.life.snaps[f.Capability]
			for i := range s.Backends {
				b := &s.Backends[i]
				want := health.Up
				if d.p.backends[b.Addr].state != "" {
					want = health.Down
				}
				if b.State != want {
					d.p.Fail("%s, %s: %s is %s, want %s: %s", when, r.name, b.Addr, b.State, want, b.Reason)
				}
				if by[b.Addr] == "" {
					by[b.Addr] = b.By
				}
				if b.By != by[b.Addr] || b.By == "" {
					d.p.Fail("%s: %s is probed by %q or %q", when, b.Addr, by[b.Addr], b.By)
				}
			}
			if len(s.Backends) != len(f.Backends) {
				d.p.Fail("%s, %s: %s has %d backends, want %d", when, r.name, f.Capability, len(s.Backends),
					len(f.Backends))
			}
		}
	}
}

// count advances the time and checks the number of probes.
func (d *healthLedger) count(t time.Duration, pass func(time.Duration)) {
	clear(d.probes)
	pass(t)
	c := d.p.config
	for _, f := range d.p.fleets {
		for _, addr := range f.Backends {
			state := d.p.backends[addr].state
			least := int(float64(t) / ((1+c.Jitter)*float64(c.Interval) + float64(c.Timeout)))
			most := int(float64(t)/((1-c.Jitter)*float64(c.Interval))) + 1
			if state != "" { // a second replica also probes it
				least, most = 2*least, 2*most
			}
			if n := d.probes[addr]; n < least || n > most {
				d.p.Fail("%s %s, and was probed %d times in %v, want %d to %d", addr, cmp.Or(state, "is up"), n, t,
					least, most)
			}
		}
	}
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
