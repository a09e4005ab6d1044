package main

import (
	"fmt"
	"slices"
	"time"
)

// How the story goes.
const (
	apart = 150 * time.Millisecond // starts of two replicas
	look  = 100 * time.Millisecond // between two looks at whether all is well again
)

// act is one part of the story, and what it cost.
type act struct {
	name  string
	lasts time.Duration
	// A second:
	// the latter two in bytes, delivered to all followers together
	probes, commands, notices, published, delivered float64
	busy                                            float64 // of Redis' thread, 0 to 1

	news       uint64          // transitions told to routers
	live, down int             // most replicas that probed one backend that is there, and one that is not
	agree      int             // replicas that know what all others found out
	well       time.Duration   // after it, all was well again; negative: it never was
	known      []time.Duration // for each backend that died, until the last replica knew; sorted
	between    []time.Duration // and from the first to the last; sorted
	missed     int             // backends of whose death some replica does not know
	replicas   int
}

// play lets d pass and says what happened. It looks again and again whether well says
// that all is; nil: nobody asks.
func (w *simulation) play(name string, d time.Duration, well func() bool) *act {
	r, start := w.redis, w.clock.now
	probes, commands, notices, published, delivered, news, busy := w.tally.probes, r.commands, r.notices, r.published,
		r.delivered, w.tally.news, r.busy
	w.tally.act()
	a := &act{name: name, lasts: d, well: -1}
	for at := look; well != nil && at <= d; at += look {
		w.clock.at(start.Add(at), func() {
			if a.well < 0 && well() {
				a.well = at
			}
		})
	}
	w.clock.pass(d)
	rate := func(now, before uint64) float64 { return float64(now-before) / d.Seconds() }
	a.probes, a.commands, a.notices = rate(w.tally.probes, probes), rate(r.commands, commands), rate(r.notices, notices)
	a.published, a.delivered = rate(r.published, published), rate(r.delivered, delivered)
	a.busy = (r.busy - busy).Seconds() / d.Seconds()
	a.news, a.live, a.down = w.tally.news-news, w.tally.mostProbers(w.alive), w.tally.mostProbers(w.dead)
	a.replicas, a.agree = len(r.nodes), w.count(w.agrees)
	return a
}

// begin starts replicas one after the other.
func (w *simulation) begin(replicas int) *act {
	for i := range replicas {
		w.clock.after(time.Duration(i)*apart, func() {
			w.start(fmt.Sprintf("gateway-%d", i), time.Duration(i-replicas/2)*time.Second)
		})
	}
	return w.play("start, one replica each 0.15 s", time.Duration(replicas)*apart+10*time.Second, nil)
}

// peace is when nothing happens.
func (w *simulation) peace() *act { return w.play("steady state", 15*time.Second, nil) }

// massFailure lets share of 100 backends die at once.
func (w *simulation) massFailure(share int) *act {
	start := w.clock.now
	w.share = share
	a := w.play(fmt.Sprintf("%d%% of the backends die", share), 20*time.Second, nil)
	for i := range w.tally.down {
		switch {
		case !w.dead(i):
		case w.tally.down[i] < len(w.redis.nodes):
			a.missed++
		default:
			a.known = append(a.known, w.tally.last[i].Sub(start))
			a.between = append(a.between, w.tally.last[i].Sub(w.tally.first[i]))
		}
	}
	slices.Sort(a.known)
	slices.Sort(a.between)
	return a
}

// emptyRestart lets Redis forget everything.
func (w *simulation) emptyRestart() *act {
	w.redis.restart()
	return w.play("Redis restarts empty", 15*time.Second, w.written)
}

// replicasDie lets some replicas die, until none that lives reckons with them.
func (w *simulation) replicasDie(n int) *act {
	w.kill(n)
	return w.play(fmt.Sprintf("%d replicas die", n), 15*time.Second, func() bool {
		return w.count(func(n *node) bool {
			return n.replica.Stats().Replicas == len(w.redis.nodes)
		}) == len(w.redis.nodes)
	})
}

// at returns the value below which share of all are.
func at(sorted []time.Duration, share float64) time.Duration {
	if len(sorted) == 0 {
		return 0
	}
	return sorted[min(len(sorted)-1, int(share*float64(len(sorted))))]
}
