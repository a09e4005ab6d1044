// Package watch bounds the watches of the admin API: RPCs and server-sent events that tell clients of changes until
// they leave.
//
//	Slots  how many watches are open at once, shared fairly by owners, and their end when the gateway stops
//	Sender how long a client may take to read an event of a gRPC stream
//
// What is watched, and who may see it, is the service's.
package watch
