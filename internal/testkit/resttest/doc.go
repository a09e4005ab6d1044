// Package resttest runs the JSON front door in front of a gRPC server, over real sockets, and reads its responses. It
// is for tests of routes, and not a part of the gateway.
package resttest
