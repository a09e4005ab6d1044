// Package gatewaytest runs whole gateways for tests: on loopback ports that the kernel
// chooses, built as internal/app builds them, in front of real backends.
//
//	gateway.go     Start, Stop, clients' connections
//	health.go      waiting for health checks
//	backend.go     gRPC servers that can be stopped, and addresses without one
//	capability.go  a capability that tests control, and that records its calls
//	live.go        the same in the live dialect
//	legacy.go      the same in the legacy dialect, and its client
//	client.go      a capability's client in any dialect
//	log.go         the log, line by line
//	operators.go   the admin API: pages and metrics
//	leaks.go       the goroutines of each gateway
//
// Nothing here sleeps: a test waits for an event, at most check.Patience. Gateways of
// parallel tests share nothing. Each must end without a goroutine left, which Stop
// asserts.
package gatewaytest
