// Package load is a load generator for the capability protocol that costs one to
// two microseconds a call: prepared messages, hand-made frames (package h2), one
// goroutine (package loop). It runs one window against one target and says what
// was done and what it cost the processes that it watches.
//
//	config.go   what to do, what was found
//	request.go  what a call looks like
//	client.go   one connection of HTTP/2
//	http1.go    one of HTTP/1.1, for JSON
//	run.go      one window: connect, warm up, measure, drain
//	bridge.go   TLS, for targets that want it
package load
