// Package peers knows how to start each proxy that the benchmark compares: one
// process, one thread where it can be told so, pinned to a core, from one listening
// address to one backend. The configurations are what a careful operator would
// write: keep-alive and stream limits raised, logs off where that is the default's
// price, nothing that changes what is forwarded.
//
//	peer.go     start, wait until it serves, stop
//	c.go        haproxy, nghttpx, nginx
//	go.go       the grpc-go proxy, the grpc-gateway proxy, the TCP relay in Go
//	envoy.go    Envoy, for gRPC and as a transcoder of JSON
//	capgate.go  capgate's configuration
package peers
