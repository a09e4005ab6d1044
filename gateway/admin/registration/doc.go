// Package registration lets backends register themselves at the admin API (proto/capgate/v1/registry.proto):
//
//	gRPC  capgate.v1.Registry, by prior knowledge of HTTP/2; and reflection
//	JSON  POST /v1/registrations and POST /v1/registrations:withdraw, over HTTP/1.1 or 2
//
// One server handles both (server.go) and calls internal/registry. Package guard authorizes
// its callers, at the admin API alone.
package registration
