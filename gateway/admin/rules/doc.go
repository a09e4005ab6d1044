// Package rules lets operators say who may call what, as proto/capgate/v1/policies.proto
// has it:
//
//	gRPC  capgate.v1.Policies
//	JSON  GET, PUT and DELETE /v1/policies, GET /v1/policies:explain
//
// It checks what it is told and asks package policy. It authenticates nobody: it is for
// the operators' port alone.
package rules
