// Package peers starts the proxies that the benchmark compares: one process each, with one thread where that can be
// configured, pinned to a core, from one listening address to one backend. The configurations are those of a careful
// operator: keep-alive and stream limits are raised, logs are off if they are off by default, and nothing changes
// what is forwarded.
//
//	peer.go     start, wait until it serves, stop
//	c.go        haproxy, nghttpx, nginx
//	go.go       the grpc-go proxy, the grpc-gateway proxy, the TCP relay in Go
//	envoy.go    Envoy, for gRPC and as a transcoder of JSON
//	capgate.go  capgate's configuration
package peers
