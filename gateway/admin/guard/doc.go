// Package guard authenticates and authorizes the requests of the admin API.
//
//	request ─► Host (package gateway) ─► origin ─► credential ─► operator ─► role of the route ─► handler
//	                                      │            │                        │
//	                                  CROSS_SITE   OPERATOR_UNKNOWN       ROLE_MISSING, OPERATOR_TENANT
//
// The table in access.go has a row for every route and every gRPC method: the least role, and whether the roles must
// be for all tenants. A route without a row fails the start. A handler whose row permits operators of one tenant
// narrows its answer with operator.Tenant.
//
// Each Authenticator knows one kind of credential: Keys (operators' keys), StartToken, Tokens (of the issuers'
// people), Tenants (keys and tokens of tenants with roles), Certificates, and cookie sessions, which package people has.
//
// The JSON routes of gRPC services have no rows of their own. Their rows are those of the methods, which the
// annotations of google.api.http name.
package guard
