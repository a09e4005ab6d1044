// Package relay is an HTTP/2 relay for gRPC: it reads frames from clients, asks a
// [Handler] where each stream should go, and moves the stream's frames to an
// [Upstream] and back without unmarshalling them.
//
// It is a mechanism. It imports nothing of the gateway and knows no capability,
// tenant or policy; it knows HTTP/2 (RFC 9113), HPACK (RFC 7541) and the framing
// of gRPC over them.
//
//	listener ─ sniff ─┬─ HTTP/1.1 ───────────────────────► http.Handler
//	                  └─ HTTP/2 ─ conn ─ stream ─┬─ other ─► http.Handler (in-process)
//	                                             └─ gRPC ──► Handler ─► Upstream ─ conn ─► backend
//
// A shard is one lock over a set of client connections and the upstream
// connections that their streams use. Every event (bytes from a socket, a timer, a
// finished dial, a resumed stream) takes the lock, lets the state machines of
// conn.go and stream.go run, writes every connection that has something to say
// once, and lets go. There is no goroutine per stream; one per connection waits
// for its socket.
//
//	link_raw.go, link_conn.go   sockets: cleartext by RawConn, TLS and pipes by net.Conn
//	shard.go                    lock, timers, flushing
//	conn*.go, frame.go          HTTP/2 connection: frames in, frames out, settings, flow control
//	stream*.go                  one call: two halves, their windows, their pending bytes
//	limits.go, group.go         what a stream may bring; what streams share: a rate, memory
//	upstream.go, pool.go        backends: dialling, choosing and retiring connections
//	guard.go, usage.go          abuse: what a peer may make us do; what is held for it
//
// A peer that is slow, greedy or malicious costs at most this: 64 KiB for each open
// stream and direction, and 1 MiB for its connection, within a share of the memory of
// its shard ([Config]). What it begins has to be finished in time; what it makes us do
// without use for itself is counted, and too much of it ends its connection with
// ENHANCE_YOUR_CALM (RFC 9113 §10.5). A backend is held to the same, and whatever it
// does ends its own connection or the call, never a client's connection.
package relay
