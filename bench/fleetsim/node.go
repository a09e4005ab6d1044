package main

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/capgate/capgate/health"
	"github.com/capgate/capgate/internal/call"
)

// roundTrip is the duration of a probe of a reachable host.
const roundTrip = time.Millisecond

// node simulates one replica.
type node struct {
	simulation   *simulation
	id           string
	replica      *health.Replica
	ahead        time.Duration // offset of its clock
	wake         time.Time     // time of the next scheduled step; zero if none is scheduled
	unsubscribed bool          // not subscribed to the change feed of Redis
	dead         bool
	earlier      bool // of an earlier version, which cannot read compact notices
}

// start adds a replica.
func (w *simulation) start(id string, ahead time.Duration) {
	n := &node{simulation: w, id: id, ahead: ahead, earlier: len(w.redis.nodes) < w.earlier}
	n.replica = health.NewReplica(health.ReplicaOptions{ID: id, Shared: true})
	n.replica.Set(n.time(), w.fleets)
	w.redis.nodes = append(w.redis.nodes, n)
	n.receive(health.Event{Subscribed: true})
}

func (n *node) time() time.Time { return n.simulation.clock.now.Add(n.ahead) }

// receive delivers events that Redis has published.
func (n *node) receive(events ...health.Event) {
	if n.earlier {
		compact := func(e health.Event) bool { return len(e.Entries) > fewChanges }
		events = slices.DeleteFunc(slices.Clone(events), compact)
	}
	n.step(func() {
		for _, event := range events {
			n.replica.OnEvent(n.time(), event)
		}
	})
}

// step runs f, then starts the work that the replica requests, as health.Prober does.
func (n *node) step(f func()) {
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
			n.step(func() { n.replica.OnProbe(n.time(), p, w.probeResult(i)) })
		})
	}
	if work.Heartbeat != nil {
		r.heartbeat(*work.Heartbeat, func(m health.Members) {
			n.step(func() { n.replica.OnHeartbeat(n.time(), m, nil) })
		})
	}
	if len(work.Publish) > 0 {
		r.publish(work.Publish, func(waiting []health.Waiting) {
			n.step(func() { n.replica.OnPublish(n.time(), work.Publish, waiting, nil) })
		})
	}
	for _, read := range work.Reads {
		r.read(read.Shard, read.Full, func(p health.Shard) {
			n.step(func() { n.replica.OnShard(n.time(), read, p, nil) })
		})
	}
	for _, c := range n.replica.Changes() {
		w.tally.record(w.clock.now, c)
	}
	if at, ok := n.replica.Next(); ok {
		n.sleep(at.Add(-n.ahead))
	}
}

// sleep schedules a step, unless an earlier one is scheduled.
func (n *node) sleep(at time.Time) {
	if at.Before(n.simulation.clock.now) {
		at = n.simulation.clock.now
	}
	if !n.wake.IsZero() && !at.Before(n.wake) {
		return
	}
	n.wake = at
	n.simulation.clock.at(at, func() {
		if n.wake.Equal(at) {
			n.wake = time.Time{}
			n.step(func() {})
		}
	})
}

// probeResult returns the result of a probe of backend i.
func (w *simulation) probeResult(i int) health.Result {
	if w.dead(i) {
		return health.Result{Refused: true, Reason: "Unavailable: connection refused"}
	}
	return health.Result{OK: true, Dialect: call.Live}
}

// index returns the number of a backend, which newSimulation encodes in its names.
func index(capability, addr string) int {
	fleet, _ := strconv.Atoi(strings.TrimPrefix(capability, "capability-"))
	_, port, _ := strings.Cut(addr, ":")
	p, _ := strconv.Atoi(port)
	return fleet*perFleet + p - firstPort
}
