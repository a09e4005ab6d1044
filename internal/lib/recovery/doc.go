// Package recovery keeps a panic in one goroutine from ending the process.
//
// A panic is a bug. It ends one call, or one round of a loop, and never the calls of others. It is logged with its
// stack. Arguments may hold a caller's data, so they are not logged. Neither is the panic's text, unless the Go
// runtime wrote it. Panics are counted by the name of the goroutine.
//
//	go recovery.Func("rest pump", f)()             // f's panic ends f
//	err := recovery.Do("approval", f)              // f's panic is ErrPanic
//	running.Go(recovery.Loop(ctx, "registry", f))  // f begins again after a pause, until ctx ends
//
// The counts and the logger belong to the process, as a panic does: a goroutine that fails need not know its
// gateway. Deferred functions that must recover by themselves call Report.
package recovery
