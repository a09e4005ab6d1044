// Package registration lets backends register themselves over the operators' port, as
// proto/capgate/v1/registry.proto has it:
//
//	gRPC  capgate.v1.Registry, by prior knowledge of HTTP/2; and reflection
//	JSON  POST /v1/registrations and POST /v1/registrations:withdraw, by HTTP/1.1 or 2
//
// Both come to one server (server.go), which asks internal/registry. It authenticates
// nobody: it is for the operators' port alone.
package registration
