// Package rules lets operators manage authorization rules (proto/capgate/v1/policies.proto):
//
//	gRPC  capgate.v1.Policies
//	JSON  GET, PUT and DELETE /v1/policies, GET /v1/policies:explain
//
// It checks requests, and calls package policy. It authenticates no caller, and must be served at the admin API
// alone.
package rules
