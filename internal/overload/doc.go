// Package overload decides which calls a process that nears its own limits turns away.
//
// There are three limits, and each says who is to blame:
//
//	in flight  calls at once: who has the most of them       bound.go
//	memory     what lives in the heap: the same, as it is     bound.go
//	           calls that hold memory
//	delay      how long bytes wait until it is their turn,    rate.go
//	           as far as the process's own work is the cause
//	           (processor.go): who brings the most calls a
//	           second
//
// A tenant is turned away only when it is above its fair share, which is what all would
// have if the heaviest were cut down to the same height until what is left fits (shares.go).
// Calls that were let in are never ended.
//
// The Shedder decides from memory and is told of its surroundings by Tick; it reads no
// clock. Watch measures them (watch.go, processor.go, memory.go).
package overload
