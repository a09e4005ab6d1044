// Package resttest has the JSON front door before a gRPC server, over real sockets, and reads its answers. It is for
// tests of routes, and not a part of the gateway.
package resttest
