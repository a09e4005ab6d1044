// Package grpctest runs a gRPC service that is independent of capgate, with or without server reflection. Its methods
// echo, stream, fail, wait, and return any bytes.
//
// make generate creates demo.binpb from demo.proto.
package grpctest
