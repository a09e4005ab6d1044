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
// A run is a bubble of testing/synctest. Each effect of one goroutine on another through a socket, and each step of an
// actor, is an event that waits for the Simulation. The Simulation runs one event, waits until all goroutines are
// blocked, checks the invariants, and selects the next event. Time passes only when the Simulation allows it.
//
// # What makes a run repeatable
//
//   - Before the seed selects an event, the events are sorted by their content, not by their arrival.
//   - Keys, tokens and ids come from crypto/rand, which testing/cryptotest seeds.
//   - Jitter is a hash of the seed, the time and the duration (Simulation.Jitter), so the order of draws is irrelevant.
//   - Between two events, only the goroutines that the first one woke run, usually one. If there are several, as after
//     a broadcast, the result must not depend on their order. TestSameSeedSameTrace compares the traces of two runs.
//   - The order of maps, of select and of the connection pool affects only events of the same moment, which are
//     sorted again.
//
// The virtual Redis executes the product's scripts in miniredis. It has a replica that lags, WAIT, and a failover that
// loses the writes that the replica lacks. It can reject writes, and restart without its data.
//
// The simulations are in the tests. The simulation of health has no goroutines or sockets: it carries out the work that
// a state machine, health.Replica, requests, as events of Simulation.Expect. `make simulate SEEDS=10000` runs many
// seeds. A failure prints its seed, the end of its trace and the command that repeats it.
package sim
