// Package http1 serves the common requests of HTTP/1.1: complete heads of a strict subset, with a short body or none.
// It reads each of them as net/http does. A connection with any other request goes to net/http's server, with the bytes
// of that request and before any response to it, and stays there. net/http starts a goroutine and reads twice in vain
// for each request, and keeps two buffers for each idle connection.
//
//	server.go    the connections, their shutdown and their end
//	conn.go      one connection: a request after the other
//	receive.go   reads, with a buffer only for clients that send
//	head.go      the head of a request; fields.go: its fields
//	body.go      the body of a request
//	watch.go     ends the context of a request whose client disconnects
//	response.go  the http.ResponseWriter; status.go: the head of a response
//	date.go      the Date header
package http1
