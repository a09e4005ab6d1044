// Package redistest runs real Redis servers for tests, and lets them fail.
//
//	server.go    one redis-server behind a Proxy: kill, restart empty, freeze, fill
//	process.go   a program that ends with the test
//	proxy.go     a way to any server that can be slow, silent (for some clients or all) or cut
//	tls.go       another way to it, with TLS
//	tcp.go       a server that others reach by its own address
//	replica.go   a master and a replica that falls behind, and is promoted
//	sentinel.go  a master, a replica and a Sentinel: fail over
//	cluster.go   a Cluster of three
//	main.go      what a test needs, for a TestMain that starts servers for all
//
// It needs redis-server on the PATH, which tools/setup installs. Nothing here sleeps: what
// has been started answers when the function returns.
package redistest
