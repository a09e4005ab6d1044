// Package grpcproxy is the proxy that one builds with grpc-go when one is in no
// hurry: a server with an UnknownServiceHandler, a client connection, and a codec
// that leaves messages as they are. It is tuned as far as that paid: pooled
// buffers, larger windows and write buffers. It is a peer in the benchmark, not
// a part of the gateway.
package grpcproxy
