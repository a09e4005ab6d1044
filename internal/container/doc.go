// Package container probes one capability container from outside, as a caller without a gateway: whether a gRPC
// server answers, its dialects, its health and its tools.
//
//	reach.go    detects an HTTP/2 server, or the reason why there is none
//	client.go   one client for the dialects
//	upload.go   the two forms of uploads
//	probe.go    health and dialects
//	tools.go    the tools
//
// It decides nothing: the health of fleets is in package health.
package container
