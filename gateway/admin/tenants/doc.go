// Package tenants manages tenants and their API keys (proto/capgate/v1/tenants.proto):
//
//	gRPC  capgate.v1.Tenants
//	JSON  /v1/tenants, /v1/tenants/{id}/keys
//
// The admin API covers all tenants, or that of its operator. The public port, with JSON in
// gateway/frontdoor/rest, covers the caller's own tenant, within the caller's own permissions (principal.go).
package tenants
