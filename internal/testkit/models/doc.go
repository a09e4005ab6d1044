// Command models checks the TLA+ models beside it with TLC. `make models` runs it.
//
//	Approvals.tla  an approval is used once, in its time, and only if a person approved it
//	Budgets.tla    the calls beyond a quota while Redis is away and after failovers
//	Permits.tla    the concurrent calls beyond a limit, likewise
//
// Each has failovers of Redis in it, and constants for what is assumed of Redis and for what the code does. A cfg file
// has their values. checks.yaml lists what has to hold, and which promise breaks without an assumption or a part of
// the code: an invariant that cannot fail proves nothing.
//
// The models leave out what internal/testkit/sim has: the change of a day or month, calls per second, and that no call
// runs after a denial.
//
// docs/run/security.md states the assumptions for operators. Who changes a script of the models' code changes the
// model.
package main
