// Package guard authenticates and authorizes the requests of the admin API.
//
//	request ─► Host (package gateway) ─► origin ─► credential ─► operator ─► role of the route ─► handler
//	                                      │            │                        │
//	                                  CROSS_SITE   OPERATOR_UNKNOWN       ROLE_MISSING, OPERATOR_TENANT
//
// The option capgate.v1.access of a gRPC method has the least role, and whether the roles must be for all tenants. Its
// JSON routes, which the annotations of google.api.http name, demand the same. The table in access.go has a row for
// every other route. A method without the option and a route without a row fail the start. A handler that permits
// operators of one tenant narrows its answer with operator.Tenant.
//
// Each Authenticator knows one kind of credential: Keys (operators' keys), StartToken, Tokens (of the issuers'
// people), Tenants (keys and tokens of tenants with roles), Certificates, and cookie sessions, which package people
// has.
package guard
