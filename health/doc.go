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
// A probe asks the backend's own Healthcheck: the doc dialect's, else the live
// dialect's, else grpc.health.v1. The dialect that answers is how the gateway
// learns what a backend speaks. A backend that implements none of them but
// accepts the connection is usable.
package health
