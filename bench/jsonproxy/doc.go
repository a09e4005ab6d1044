// Package jsonproxy is a straightforward JSON front end of a gRPC service, built with grpc-gateway: its generated
// handlers with their defaults on net/http, and a grpc-go client connection to the backend. It has no authentication,
// policy or logging. It is a peer in the benchmark, not a part of the gateway.
package jsonproxy
