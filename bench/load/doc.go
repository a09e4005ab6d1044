// Package load is a load generator for the capability protocol that takes one to two microseconds per call: prepared
// messages, hand-made frames (package h2), one goroutine (package loop). It runs one window against one target and
// returns the work done and the processor time of the processes that it watches.
//
//	config.go   configuration and result
//	request.go  requests
//	client.go   an HTTP/2 connection
//	http1.go    an HTTP/1.1 connection, for JSON
//	run.go      one window: connect, warm up, measure, drain
//	bridge.go   TLS, for targets that require it
package load
