// Package accept accepts the connections of clients: it listens, limits the number of connections, performs TLS
// handshakes, detects the protocol of a connection, and replaces old connections. It serves
// HTTP/1.1 with http1 and net/http, and passes HTTP/2 connections to its user.
//
//	server.go      listeners, and the setup of a connection
//	port.go        one listener: its TLS, and the properties of its clients
//	limits.go      connection limits, for all and for each network; networks.go: recently authenticated networks
//	evict.go       closes unauthenticated connections to make room for others
//	handshakes.go  limits the number of concurrent TLS handshakes
//	transport.go   the connection below TLS; records.go: the memory of its records
//	mismatch.go    clients that use TLS at a cleartext port, or cleartext at a TLS port
//	memory.go      the bytes of a connection, charged to an Account
//	http1.go       connections over HTTP/1.1: http1 has those with common requests only, and net/http the others
//	headers.go     memory of their headers
//	age.go         the last response of a connection
package accept
