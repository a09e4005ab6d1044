// Package overload sheds calls when the process nears its limits.
//
// There are three limits, each with its own share of a tenant:
//
//	in flight  concurrent calls: the tenant with the most     bound.go
//	memory     live heap: likewise, as calls hold memory      bound.go
//	delay      how long bytes wait for their processing,      rate.go
//	           as far as the process itself is the cause
//	           (cpu.go): the tenant with the most calls
//	           a second
//
// A tenant's calls are shed only when it is over its fair share, by max-min fairness (share.go). Admitted
// calls are never ended.
//
// The Shedder decides from memory. Tick gives it the signals; it reads no clock. Watch measures them
// (watch.go, cpu.go, memory.go).
package overload
