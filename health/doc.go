// Package health finds out which backends are alive and publishes that in immutable
// snapshots. A call never queries it: the prober notifies the router of each change, and
// the router's tables are ready before the next call comes.
//
// The package is no load balancer, and does not prevent connections to a backend. To it, a
// fleet is a name with addresses.
//
//	prober.go: time, network, goroutines      replica.go: decides; has none of the three
//	  wait until the next is due ◄──────────── schedule.go: which backend to probe when
//	  probe.go: Healthcheck ─────────────────► threshold.go: rise, fall
//	  Options.Changed ◄─────────────────────── a transition: a new Snapshot
//
// With Options.Shared, replicas share the work through a Membership, which lists the live
// replicas, and a Store, which holds their observations:
//
//	membership.go  live replicas, by heartbeats; isolation when the membership does not reply
//	ownership.go   which replica probes which backend: rendezvous hashing, the same everywhere
//	evaluate.go    what to probe here, and the state that follows from observations (resolve.go)
//	publish.go     transitions, to the store        shard.go   and from it
//
// The primary replica of a backend probes it. While its observation is Down, the secondary
// probes too, and only both together take the backend out of service: a replica that lost its
// network evicts no backend. A backend that no live replica probes becomes Unknown, which is
// usable. An empty or silent store erases no replica's knowledge. All replicas show the newest reason of a backend that
// stays Down, which is published twice a minute at most.
//
// A replica that reaches no backend, though others do, is cut off (reach.go). When a backend does not answer a probe,
// all replicas are notified (silence.go), so that their calls at it need not wait for their deadlines.
//
// A backend that refuses connections, or whose name does not exist, is probed again after a backoff from 100 ms. While
// calls wait for a fleet without a ready backend (Prober.Expedite, ondemand.go), every replica with such calls probes.
// Its own results apply there at once, and are not published.
//
// A probe calls the backend's own Healthcheck: the doc dialect's, else the live
// dialect's, else grpc.health.v1. The first that gets an answer is the
// backend's dialect. A backend that implements none of them but accepts the connection is
// usable. A fleet of another protocol has a Question of its own.
package health
