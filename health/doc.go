// Package health finds out which backends are alive and says so in immutable
// snapshots. Nobody asks it during a call: it tells the router when something
// changed, and the router's tables are ready before the next call comes.
//
// It is not a load balancer and keeps no backend from being dialled; it knows
// fleets only as names with addresses.
//
//	prober.go: time, network, goroutines      replica.go: decides; has none of the three
//	  wait until the next is due ◄──────────── schedule.go: which backend to probe when
//	  probe.go: Healthcheck ─────────────────► judge.go: rise, fall
//	  Options.Changed ◄─────────────────────── a transition: a new Snapshot
//
// With Options.Shared, replicas share the work, through a Roll on which they see who
// else is alive and a Board on which they put what they find out:
//
//	beat.go     who is alive, by heartbeats; alone when nobody answers
//	roster.go   whose turn each backend is: rendezvous hashing, the same everywhere
//	settle.go   what to probe here, and what the votes on a backend come to (vote.go)
//	post.go     transitions, to the board        page.go   and from it
//
// The first of a backend's order probes it. While its vote is Down the second probes
// too, and only both together take the backend from everybody: a replica that has lost
// its network evicts nobody. What no live replica looks at becomes Unknown, which is
// usable; an empty or silent board makes nobody forget anything.
//
// A probe asks the backend's own Healthcheck: the doc dialect's, else the live
// dialect's, else grpc.health.v1. The dialect that answers is how the gateway
// learns what a backend speaks. A backend that implements none of them but
// accepts the connection is usable. OpenParallax engines have none of them and are asked
// something else (engine.go).
package health
