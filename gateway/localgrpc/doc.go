// Package localgrpc adapts local streams of the relay to generated gRPC code: Conn is a grpc.ClientConnInterface on
// relay.Open, and Server a grpc.ServiceRegistrar on relay's Stream.Serve. No socket, no HTTP/2 frame and no grpc-go
// transport is between them and the relay.
//
//	generated client ── Conn ── relay.ClientStream ─┐
//	                                                relay
//	generated server ── Server ── relay.ServerStream ┘
//
// Load balancing, retries, stats handlers and per-call credentials are not supported. An unknown call option is an
// error.
package localgrpc
