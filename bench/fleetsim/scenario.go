package main

import (
	"fmt"
	"slices"
	"time"
)

// The timing of the scenario.
const (
	stagger = 150 * time.Millisecond // between the starts of two replicas
	poll    = 100 * time.Millisecond // between two checks for recovery
)

// phase is one part of the scenario, with its measurements.
type phase struct {
	name     string
	duration time.Duration
	// Rates per second; published and delivered are in bytes, delivered summed over all followers.
	probes, commands, events, published, delivered float64
	busy                                           float64 // share of the time that Redis' thread was busy

	transitions uint64          // sent to routers
	live, down  int             // largest number of replicas that probed one backend that is up, and one that is down
	agree       int             // replicas that agree with all published observations
	recovery    time.Duration   // time until recovery; negative if there was none
	known       []time.Duration // for each dead backend, time until the last replica knew; sorted
	between     []time.Duration // time between the first replica and the last; sorted
	missed      int             // dead backends that some replicas believe to be up
	replicas    int
}

// run simulates d and returns the measurements. If recovered is not nil, it is polled until it returns true.
func (w *simulation) run(name string, d time.Duration, recovered func() bool) *phase {
	r, start := w.redis, w.clock.now
	probes, commands, events, published, delivered, transitions, busy := w.tally.probes, r.commands, r.eventCount,
		r.published, r.delivered, w.tally.transitions, r.busy
	w.tally.beginPhase()
	p := &phase{name: name, duration: d, recovery: -1}
	for at := poll; recovered != nil && at <= d; at += poll {
		w.clock.at(start.Add(at), func() {
			if p.recovery < 0 && recovered() {
				p.recovery = at
			}
		})
	}
	w.clock.pass(d)
	rate := func(now, before uint64) float64 { return float64(now-before) / d.Seconds() }
	p.probes, p.commands = rate(w.tally.probes, probes), rate(r.commands, commands)
	p.events = rate(r.eventCount, events)
	p.published, p.delivered = rate(r.published, published), rate(r.delivered, delivered)
	p.busy = (r.busy - busy).Seconds() / d.Seconds()
	p.transitions = w.tally.transitions - transitions
	p.live, p.down = w.tally.mostProbers(w.alive), w.tally.mostProbers(w.dead)
	p.replicas, p.agree = len(r.nodes), w.count(w.agrees)
	return p
}

// begin starts the replicas one after the other.
func (w *simulation) begin(replicas int) *phase {
	for i := range replicas {
		w.clock.after(time.Duration(i)*stagger, func() {
			w.start(fmt.Sprintf("gateway-%d", i), time.Duration(i-replicas/2)*time.Second)
		})
	}
	return w.run("start, one replica each 0.15 s", time.Duration(replicas)*stagger+10*time.Second, nil)
}

// steadyState simulates a time without any event.
func (w *simulation) steadyState() *phase { return w.run("steady state", 15*time.Second, nil) }

// massFailure kills share of 100 backends at once.
func (w *simulation) massFailure(share int) *phase {
	start := w.clock.now
	w.share = share
	p := w.run(fmt.Sprintf("%d%% of the backends die", share), 20*time.Second, nil)
	for i := range w.tally.down {
		switch {
		case !w.dead(i):
		case w.tally.down[i] < len(w.redis.nodes):
			p.missed++
		default:
			p.known = append(p.known, w.tally.last[i].Sub(start))
			p.between = append(p.between, w.tally.last[i].Sub(w.tally.first[i]))
		}
	}
	slices.Sort(p.known)
	slices.Sort(p.between)
	return p
}

// emptyRestart restarts Redis without its data.
func (w *simulation) emptyRestart() *phase {
	w.redis.restart()
	return w.run("Redis restarts empty", 15*time.Second, w.written)
}

// replicasDie kills n replicas. The others have recovered when they no longer count them.
func (w *simulation) replicasDie(n int) *phase {
	w.kill(n)
	return w.run(fmt.Sprintf("%d replicas die", n), 15*time.Second, func() bool {
		return w.count(func(n *node) bool {
			return n.replica.Stats().Replicas == len(w.redis.nodes)
		}) == len(w.redis.nodes)
	})
}

// at returns the given quantile of sorted durations.
func at(sorted []time.Duration, share float64) time.Duration {
	if len(sorted) == 0 {
		return 0
	}
	return sorted[min(len(sorted)-1, int(share*float64(len(sorted))))]
}
