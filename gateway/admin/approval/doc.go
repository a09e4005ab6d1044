// Package approval lets people list and answer approvals (proto/capgate/v1/approvals.proto):
//
//	gRPC  capgate.v1.Approvals
//	JSON  GET /v1/approvals, /v1/approvals/{id}, POST /v1/approvals/{id}/approve and /deny,
//	      GET /v1/approvals/history and /statistics
//	SSE   GET /v1/approvals/events
//
// The same server is at two ports. Operators of the admin API see and answer all approvals, or those of their tenant.
// At the public port, the gateway has authenticated the caller. The caller sees the approvals of its own user
// (caller.go). The server checks requests, and calls package approvals.
package approval
