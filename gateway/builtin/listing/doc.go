// Package listing lists the capabilities and tools that callers may use (proto/capgate/v1/catalog.proto):
//
//	gRPC  capgate.v1.Catalog
//	JSON  GET /v1/capabilities, /v1/capabilities/{id}, /v1/capabilities/{id}/tools, by gateway/frontdoor/rest
//
// Requests arrive through the relay, with the caller's identity. The decision on each tool is the same as on a
// call of it. Blocked tools are not listed, nor are capabilities that are not granted to the tenant.
package listing
