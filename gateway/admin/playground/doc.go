// Package playground implements capgate.v1.Playground: an operator calls tools as a user and agent of a tenant.
//
//	POST /v1/playground:invoke ── invoke.go ─► Gateway.ServeAs: the JSON API of the public port, as that caller
//	InvokeTool over gRPC       ── stream.go ─► Gateway.StreamAs
//	GET  /v1/playground/tools  ── tools.go   ─► the catalog, and the decision on a call of each
//
// The call's key is "operator NAME", so that the access log and the audit log show the real caller.
package playground
