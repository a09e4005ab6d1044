// Package relay is an HTTP/2 relay for gRPC: it reads frames from clients, asks a
// [Handler] where each stream should go, and moves the stream's frames to an
// [Upstream] and back without unmarshalling them.
//
// It is a mechanism. It imports nothing of the gateway and knows no capability,
// tenant or policy; it knows HTTP/2 (RFC 9113), HPACK (RFC 7541) and the framing
// of gRPC over them.
//
//	listener ─ sniff ─┬─ HTTP/1.1 ───────────────────────► http.Handler
//	                  └─ HTTP/2 ─ conn ─ stream ─┬─ other ─► http.Handler
//	                                             └─ gRPC ──► Handler ─► Upstream ─ conn ─► backend
//	front door ─ Open, Unary ──────────────────────────┘    └► Serve ─ code in the process
//
// A shard is one lock over a set of client connections and the upstream
// connections that their streams use. Every event (bytes from a socket, a timer, a
// finished dial, a resumed stream) takes the lock, lets the state machines of
// conn.go and stream.go run, writes every connection that has something to say
// once, and lets go. There is no goroutine per stream; one per connection waits
// for its socket.
//
// Code in the process takes part without connections, framing or header coding. A front door begins calls by
// [Relay.Open], or [Relay.Unary] for one message each way, and the Handler decides about them as about any other:
// [Stream.Peer] is the client whose call it is, and [Stream.RequestValue] what the door knows of its caller. Whole
// messages cross; windows, deadlines, limits and groups are those of connections; what waits for a reader in the
// process is charged to the stream; Shutdown waits for all of them, and a shard that crashes ends its own.
//
// The Handler has other code in the process answer a stream by [Stream.Serve]. What that code calls onward for the
// stream is a subrequest: [ServerStream.Continue] is the same call further on, one at a time, and a [Request] with a
// Parent is a call of its own beside it. The relay sees to this:
//
//   - a subrequest runs on its parent's shard, under its parent's lock;
//   - its deadline is never later than its parent's, and it ends with its parent, but for a parent with
//
// [Handle.Detach];
//   - it never ends its parent;
//   - the group that its parent's bytes are charged to holds its bytes, too;
//   - a [Handle] is dead when the functions that may use it have returned, and never meets another call.
//
// All else is the Handler's: where a call goes on that [Stream.Continues] another, that its identity and decision stay,
// and that both are one record.
//
// Code in the process never waits for a shard's lock. It pushes an event into the shard's inbox and tries the
// lock; whoever holds the lock drains the inbox before letting go of it, and signals the code once a turn.
// [Parked.Resume] uses the same.
//
// A request over HTTP/2 that is not gRPC is served so, too: its handler has the stream as an http.Request and an
// http.ResponseWriter, which do what net/http's own server does. Bytes cross then, not messages.
//
//	accept                      listeners, TLS, connection limits, HTTP/1.1; http2.go takes its connections
//	link_raw.go, link_conn.go   sockets: cleartext by RawConn, TLS by net.Conn
//	shard.go                    lock, timers, flushing
//	conn*.go, frame.go          HTTP/2 connection: frames in, frames out, settings, flow control
//	stream*.go, half.go         one call: two halves, their windows, their pending bytes
//	inbox.go, park.go           events from goroutines without the lock; streams that wait for a decision
//	local*.go                   halves whose side is code in the process
//	client_*.go, server_*.go    Open and Serve: the end in the relay, and the stream as its user has it
//	handle.go                   subrequests
//	unary.go                    the same for one message each way
//	web*.go                     requests that are not gRPC: the http.Handler, for one that came over HTTP/2
//	limits.go, group.go         what a stream may bring; what streams share: a rate, memory
//	age.go                      clients over HTTP/2 that are to connect again, at another replica
//	upstream.go, pool.go        backends: dialling, choosing and retiring connections
//	run_queue.go                connections that have used their time slice
//	flood.go, usage.go          flood protection; what is held for a peer
//
// A peer that is slow, greedy or malicious costs at most this: 64 KiB for each open
// stream and direction, and 1 MiB for its connection, within a share of the memory of
// its shard ([Config]). What it begins has to be finished in time; what it makes us do
// without use for itself is counted, and too much of it ends its connection with
// ENHANCE_YOUR_CALM (RFC 9113 §10.5). A backend is held to the same, and whatever it
// does ends its own connection or the call, never a client's connection.
package relay
