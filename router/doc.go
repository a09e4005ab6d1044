// Package router answers two questions about a call without I/O, locks or
// allocations: which fleet is meant, and which of its backends takes it.
//
//	Key ─► Table.Resolve ─► Fleet ─► Fleet.Route ─► (Backend, Permit, refusal)
//	        immutable          │ atomic pointer                │
//	                        picker: usable backends            │ Permit.Done(Outcome): latency, failures
//	                        immutable ▲                        ▼
//	     Router.SetHealth ──────────► rebuild ◄────────── ejection
//	     health.Snapshot: which backends are down
//
// The configuration is in an immutable [Table]; the backends that get calls are in one immutable
// picker for each fleet. A change builds a new one beside the calls and swaps it in, so a call costs
// the same with one capability or ten thousand.
//
//	hostset.go   which backends get calls: probes (health), ejections, panic, slow start
//	ejection.go  outlier detection: how failures of calls eject a backend, and for how long
//	picker.go    the choice among the others: zone, then weight, then the better of two by
//	latency.go   moving averages, times calls in flight
//	budget.go    the retry budget of a fleet
//
// Fleets with a [Limit] have no Route: their calls Acquire a permit, and may have to wait for it.
//
//	Fleet.Acquire ─► limiter: permits, wait queue ── Limits.Run ─► PermitStore
//	                  ▲ a permit is free               shared by replicas
//	              Permit.Done
//
//	waitqueue.go the wait queue, fair among tenants; which call of a tenant is served first
//	calltime.go  the time that a call needs, so that no permit goes to a call that cannot end in time
//	pool.go      the permits of one backend
//	lease.go     the part of them that this replica holds
//
// An ejection or a slow start ends when the next call sees that its time is over: there are no
// timers and no goroutines.
//
// Ejections are local to the process. Shared knowledge enters as a health.Snapshot, by
// Router.SetHealth.
//
// The router moves no bytes: a [Backend] is an address with a number, by which the gateway finds its
// connections.
package router
