// Package accept accepts the connections of clients: it listens, limits the number of connections, performs TLS
// handshakes, detects the protocol of a connection, and replaces old connections. It serves HTTP/1.1 with net/http,
// and passes HTTP/2 connections to its user.
//
//	server.go      listeners, and the setup of a connection
//	port.go        one listener: its TLS, and what its clients have in common
//	limits.go      connection limits, for all and for each network; networks.go: recently authenticated networks
//	evict.go       unauthenticated connections make room for others
//	handshakes.go  how many TLS handshakes use a processor at once
//	mismatch.go    clients that speak TLS or cleartext where the port does not
//	memory.go      the bytes of a connection, charged to an Account
//	http1.go       connections over HTTP/1.1
//	headers.go     the bytes of their headers
//	age.go         which of their responses is the last
package accept
