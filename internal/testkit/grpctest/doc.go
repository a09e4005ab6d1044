// Package grpctest runs a gRPC service that knows nothing of capgate, with or without server reflection. Its methods do
// what tests need: they echo, stream, fail, wait, and answer with any bytes.
//
// demo.binpb is made of demo.proto by make generate.
package grpctest
