// Package owncalls lists the recent calls of a caller (proto/capgate/v1/own_calls.proto):
//
//	gRPC  capgate.v1.OwnCalls
//	JSON  GET /v1/calls, by gateway/frontdoor/rest
//
// The calls are those that operators see in capgate.v1.Calls, without backends and decisions. A replica reads them at
// most once a second, for all callers.
package owncalls
