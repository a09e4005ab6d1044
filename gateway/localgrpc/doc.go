// Package localgrpc gives local streams of the relay the shapes that generated gRPC code expects: Conn is a
// grpc.ClientConnInterface on relay.Open, and Server a grpc.ServiceRegistrar on relay's Stream.Serve. No socket, no
// HTTP/2 frame and no grpc-go transport is between them and the relay.
//
//	generated client ── Conn ── relay.ClientStream ─┐
//	                                                relay
//	generated server ── Server ── relay.ServerStream ┘
//
// Load balancing, retries, stats handlers and per-call credentials are not supported. A call option that the
// package does not know is an error, not ignored.
package localgrpc
