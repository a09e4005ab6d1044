// Package listing tells callers which capabilities and tools they may use, as proto/capgate/v1/catalog.proto
// has it:
//
//	gRPC  capgate.v1.Catalog
//	JSON  GET /v1/capabilities, /v1/capabilities/{id}, /v1/capabilities/{id}/tools, by gateway/frontdoor/rest
//
// It is reached through the relay, which says who asks. Each tool is decided on as a call of it would be; what
// is blocked is not there, and neither is a capability that its tenant is not granted.
package listing
