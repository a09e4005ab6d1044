// Package mcpproxy is the MCP front of a gRPC service that one writes with the official Go SDK when one is in no hurry:
// a stateless server with one tool, whose handler calls the backend with a grpc-go client connection. It authenticates
// nobody, decides nothing and logs nothing. It is a peer in the benchmark, not a part of the gateway.
package mcpproxy
