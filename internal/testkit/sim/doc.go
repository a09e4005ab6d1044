// Package sim simulates replicas with virtual sockets, a virtual clock and a virtual Redis. One seed decides
// everything, so a run that fails can be repeated exactly.
//
//	   real code of the product                      this package
//	┌───────────────────────────┐
//	│ replica 1   actor   actor │── dial, write ──► Site, Conn ──► chunks on their way ┐
//	│ replica 2   actor         │── Turn ────────────────────────► actors that wait ───┤
//	│ Redis: scripts, miniredis │◄─ deliver, reset ─ Conn ◄────────────────────────┐   ├─► Simulation: the seed picks
//	└───────────────────────────┘                                                  │   │   one event, a fault, or
//	            ▲                                         faults of the test ──────┼───┤   lets time pass
//	            └── timers fire ── the bubble's clock ◄────────────────────────────┴───┘
//
// A run is a bubble of testing/synctest. Each effect that one goroutine has on another through a socket, and each step
// of an actor, is an event that waits for the Simulation. The Simulation lets one happen, waits until all goroutines
// are blocked, checks the invariants, and picks the next. Time passes only if the Simulation lets it.
//
// # What makes a run repeatable
//
//   - Events are sorted by what they are, not by their arrival, before the seed picks one.
//   - Keys, tokens and ids are of crypto/rand, which testing/cryptotest seeds.
//   - Jitter is a hash of the seed, the time and the duration (Simulation.Jitter), so that no order of draws matters.
//   - Between two events only goroutines run that the first one woke, mostly one. Those that run together, as after a
//     broadcast, must not depend on their order: this is what the test of determinism checks, by the hash of the trace.
//   - The order of maps, of select and of the pool of connections decides only among events of the same moment, which
//     are sorted again.
//
// The virtual Redis executes the product's scripts in miniredis. It has a replica that lags, WAIT, and a failover that
// forgets what the replica did not have. It may refuse writes, and restart without its data.
//
// The simulations are in the tests. That of health has no goroutines or sockets: the simulation gives a state machine,
// health.Replica, what it asks for, as events of Simulation.Expect. `make simulate SEEDS=10000` runs many seeds; a
// failure prints its seed, the end of its trace and the command that repeats it.
package sim
