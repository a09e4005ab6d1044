// Package router answers two questions about a call without I/O, locks or
// allocations: which fleet is meant, and which of its backends takes it.
//
//	Key ─► Table.Resolve ─► Fleet ─► Fleet.Route ─► (Backend, Claim, refusal)
//	        immutable          │ atomic pointer                │
//	                        picker: usable backends            │ Claim.Done(Outcome): latency, failures
//	                        immutable ▲                        ▼
//	     Router.SetHealth ──────────► muster ◄─────────── ejection
//	     health.Snapshot: who is down
//
// What the configuration says is in an immutable [Table]; who gets calls is in one
// immutable picker for each fleet. Changes build new ones beside the calls and swap
// them in, so a call costs the same whether there is one capability or ten thousand.
//
//	muster.go    who gets calls: probes (health), ejections, panic, slow start
//	ejection.go  how the ends of calls take a backend out, for how long
//	picker.go    among those who do: zone, then weight, then the better of two by
//	latency.go   moving averages, times calls in flight
//	budget.go    how many second tries a fleet may have
//
// Calls of a fleet with a [Limit] take no Route: they Enter, and may have to wait for a place.
//
//	Fleet.Enter ─► limiter: places, and who waits ── Limits.Run ─► Slots
//	                  ▲ a place is free                what replicas share
//	              Claim.Done
//
//	waiting.go   whose turn it is among those who wait
//	pool.go      the places at one backend
//	lease.go     which of them are this replica's
//
// An ejection ends, and a slow start is over, when the next call sees that its time has
// come: there are no timers and no goroutines.
//
// Ejections are this process's own experience and are not shared. What is: a
// health.Snapshot, whoever made it, goes in by Router.SetHealth.
//
// The router moves no bytes: a [Backend] is an address with a number, by which
// the gateway finds its connections.
package router
