// Package status turns rejections into statuses of gRPC and of HTTP, and reads the details of statuses.
//
//	codes.go    the tables of gRPC codes and HTTP statuses
//	status.go   a rejection as a status of grpc-go and of the relay
//	service.go  services whose methods return refusals
//	library.go  statuses of gRPC libraries, which quote requests
//	failures.go the failures of the relay
//	cache.go    statuses that many calls share
//	details.go  the only reader and writer of google.rpc.ErrorInfo
//
// A call.Refusal has no protocol. What its client learns of a repeat follows from the call.Progress of the call:
//
//	NotSent   the metadata not_started, and google.rpc.RetryInfo if the refusal has a retry time
//	Sent      grpc-retry-pushback-ms: -1 and no time, so that no client repeats the call automatically
//	Answered  the retry time of the refusal
package status
