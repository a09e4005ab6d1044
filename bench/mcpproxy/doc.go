// Package mcpproxy is a straightforward MCP front end of a gRPC service, written with the official Go SDK: a stateless
// server with one tool, whose handler calls the backend with a grpc-go client connection. It has no authentication,
// policy or logging. It is a peer in the benchmark, not a part of the gateway.
package mcpproxy
