// Package redistest runs real Redis servers for tests, and injects faults.
//
//	server.go    one redis-server behind a Proxy: kill, restart without data, freeze, fill
//	process.go   a program that ends with the test
//	proxy.go     a proxy to any server, which can be slow, silent (for some clients or all) or cut
//	tls.go       another way to the server, over TLS
//	tcp.go       a server that others reach by its own address, and one without a proxy
//	replica.go   a master and a replica that can lag, and be promoted
//	sentinel.go  a master, a replica and a Sentinel: failover
//	cluster.go   a Cluster of three
//	main.go      a TB for a TestMain that starts servers for all tests
//
// It needs redis-server on the PATH, which tools/setup installs. Nothing here sleeps: a started server responds when
// the function returns.
package redistest
