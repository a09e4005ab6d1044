// Package container asks one capability container from outside, as a caller without a gateway
// would: whether a gRPC server is there, which dialects it speaks, how it says it is, and which
// tools it offers.
//
//	reach.go    is there a server of HTTP/2, and if not, what is there
//	client.go   one client for the dialects
//	upload.go   the two shapes of uploads
//	probe.go    what a container says of itself
//	tools.go    which tools it offers
//
// It decides nothing: health of fleets is package health's.
package container
