// Package approval lets people see and answer what calls are to be approved, as
// proto/capgate/v1/approvals.proto has it:
//
//	gRPC  capgate.v1.Approvals
//	JSON  GET /v1/approvals, /v1/approvals/{id}, POST /v1/approvals/{id}/approve and /deny
//	SSE   GET /v1/approvals/events
//
// The same server is at two ports. Operators see everything and answer; the port
// authenticates nobody. Callers, who come through the relay, which says who they are, see
// what is their own (viewer.go). It checks what it is told and asks package approvals.
package approval
