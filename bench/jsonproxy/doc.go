// Package jsonproxy is the JSON front of a gRPC service that one builds with grpc-gateway when one is in no hurry:
// its generated handlers with their defaults on net/http, and a grpc-go client connection to the backend. It
// authenticates nobody, decides nothing and logs nothing. It is a peer in the benchmark, not a part of the gateway.
package jsonproxy
