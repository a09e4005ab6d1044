// Package rules lets operators manage authorization rules (proto/capgate/v1/policies.proto):
//
//	gRPC  capgate.v1.Policies
//	JSON  GET, PUT and DELETE /v1/policies, GET /v1/policies:explain
//
// It checks requests, and calls package policy. Package guard authorizes its callers, at the admin API alone. Those of
// one tenant see its rules alone.
package rules
