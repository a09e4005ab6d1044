// Package recovery keeps a panic in one goroutine from ending the process.
//
// A panic is a bug. What it ended is one call, or one round of a loop, and never the calls of everybody else. It is
// logged with its stack, without arguments and without the panic's text unless the Go runtime wrote that, as both
// may hold what a caller sent. It is counted by the name of the goroutine.
//
//	go recovery.Func("rest pump", f)()             // f's panic ends f
//	err := recovery.Do("approval", f)              // f's panic is ErrPanic
//	running.Go(recovery.Loop(ctx, "registry", f))  // f begins again after a pause, until ctx ends
//
// The counts and the logger belong to the process, as the panics would: a goroutine that fails need not know which
// gateway it is of. Deferred functions that must recover by themselves call Report.
package recovery
