package main

import (
	"strconv"
	"strings"
	"time"

	"github.com/capgate/capgate/health"
	"github.com/capgate/capgate/internal/call"
)

// roundTrip is what a probe takes whose backend is there, or whose host refuses it.
const roundTrip = time.Millisecond

// node is one replica in a simulation.
type node struct {
	simulation *simulation
	id         string
	replica    *health.Replica
	ahead      time.Duration // of its clock
	wake       time.Time     // when it is to be stepped next; zero: never
	deaf       bool          // it does not follow Redis' channel at present
	dead       bool
}

// start lets a new replica live.
func (w *simulation) start(id string, ahead time.Duration) {
	n := &node{simulation: w, id: id, ahead: ahead}
	n.replica = health.NewReplica(health.ReplicaOptions{ID: id, Shared: true})
	n.replica.Set(n.time(), w.fleets)
	w.redis.nodes = append(w.redis.nodes, n)
	n.hear(health.Event{Subscribed: true})
}

func (n *node) time() time.Time { return n.simulation.clock.now.Add(n.ahead) }

// hear takes what Redis has published.
func (n *node) hear(notices ...health.Event) {
	n.turn(func() {
		for _, notice := range notices {
			n.replica.OnEvent(n.time(), notice)
		}
	})
}

// turn lets f happen to the replica, and does what it wants done then, as health.Prober
// does.
func (n *node) turn(f func()) {
	if n.dead {
		return
	}
	f()
	w, r := n.simulation, n.simulation.redis
	work := n.replica.Step(n.time())
	for _, p := range work.Probes {
		i := index(p.Capability(), p.Addr())
		w.tally.probe(i, n)
		w.clock.after(roundTrip, func() {
			n.turn(func() { n.replica.OnProbe(n.time(), p, w.answer(i)) })
		})
	}
	if work.Heartbeat != nil {
		r.beat(*work.Heartbeat, func(m health.Members) {
			n.turn(func() { n.replica.OnHeartbeat(n.time(), m, nil) })
		})
	}
	if len(work.Publish) > 0 {
		r.post(work.Publish, func() {
			n.turn(func() { n.replica.OnPublish(n.time(), work.Publish, nil) })
		})
	}
	for _, read := range work.Reads {
		r.read(read.Shard, read.Full, func(p health.Shard) {
			n.turn(func() { n.replica.OnShard(n.time(), read, p, nil) })
		})
	}
	for _, c := range n.replica.Changes() {
		w.tally.see(w.clock.now, c)
	}
	if at, ok := n.replica.Next(); ok {
		n.sleep(at.Add(-n.ahead))
	}
}

// sleep gives the replica its turn at a time.
func (n *node) sleep(at time.Time) {
	if at.Before(n.simulation.clock.now) {
		at = n.simulation.clock.now
	}
	if !n.wake.IsZero() && !at.Before(n.wake) {
		return // it has one before that
	}
	n.wake = at
	n.simulation.clock.at(at, func() {
		if n.wake.Equal(at) {
			n.wake = time.Time{}
			n.turn(func() {})
		}
	})
}

// answer is what a backend says to a probe.
func (w *simulation) answer(i int) health.Result {
	if w.dead(i) {
		return health.Result{Refused: true, Reason: "Unavailable: connection refused"}
	}
	return health.Result{OK: true, Dialect: call.Live}
}

// index returns the place of a backend among all, which its names say.
func index(capability, addr string) int {
	fleet, _ := strconv.Atoi(strings.TrimPrefix(capability, "capability-")) // as newSimulation named it
	_, port, _ := strings.Cut(addr, ":")
	p, _ := strconv.Atoi(port)
	return fleet*perFleet + p - firstPort
}
