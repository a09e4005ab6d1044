// Package watch limits the watches of the admin API: RPCs and server-sent events that notify clients of changes until
// they disconnect.
//
//	Slots  limits the number of open watches, fairly by owner, and ends them when the gateway stops
//	Sender limits the time that a client may take to read an event of a gRPC stream
//
// The services define the events and their visibility.
package watch
