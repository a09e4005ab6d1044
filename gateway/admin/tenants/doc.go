// Package tenants keeps tenants and their API keys, as proto/capgate/v1/tenants.proto has it:
//
//	gRPC  capgate.v1.Tenants
//	JSON  /v1/tenants, /v1/tenants/{id}/keys
//
// At the admin API, which authenticates nobody, for all tenants; at the public one, whose
// JSON gateway/frontdoor/rest has, for the caller's own, and no further than its own grants (asker.go).
package tenants
