// Command models checks the TLA+ models beside it with TLC. `make models` runs it.
//
//	Approvals.tla  an approval is used once, in its time, and only if a person approved it
//	Budgets.tla    the calls beyond a quota while Redis is away and after failovers
//	Permits.tla    the concurrent calls beyond a limit, likewise
//
// Each model includes failovers of Redis, and has constants for the assumptions about Redis and for properties of the
// code. A cfg file sets their values. checks.yaml lists the invariants, and which of them breaks without an assumption
// or a part of the code: an invariant that cannot fail proves nothing.
//
// internal/testkit/sim covers what the models omit: the change of a day or month, calls per second, and that no call
// runs after a denial.
//
// docs/run/security.md states the assumptions for operators. A change to a script of the modeled code requires the same
// change to the model.
package main
