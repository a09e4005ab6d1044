// Package overload sheds calls when the process nears its limits.
//
// There are three limits, each with its own share of a tenant:
//
//	in flight  concurrent calls: the tenant with the most     bounds.go
//	memory     live heap: first the tenant that holds the     bounds.go
//	           most, then the one with the most calls
//	delay      how long bytes wait for their processing,      rate.go
//	           as far as the process itself is the cause
//	           (cpu.go): the tenant with the most work a
//	           second, in calls
//
// The unit of work is a call. Bytes that a front door decodes or holds count as calls too, as do bytes that the relay
// moves (share.go). Doors ask before they read a long body, as its cost comes before its call.
//
// A tenant's calls are shed only when it is over its fair share, by max-min fairness (share.go). Admitted
// calls are never ended.
//
// The Shedder decides from memory. Tick gives it the signals; it reads no clock. Watch measures them
// (watch.go, cpu.go, memory.go).
package overload
