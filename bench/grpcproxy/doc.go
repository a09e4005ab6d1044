// Package grpcproxy is a straightforward proxy on grpc-go: a server with an UnknownServiceHandler, a client connection,
// and a codec that leaves messages as they are. It has the tuning that had an effect: pooled buffers, larger windows
// and larger write buffers. It is a peer in the benchmark, not a part of the gateway.
package grpcproxy
