// Package relay implements an HTTP/2 relay for gRPC. It reads frames from clients, lets a [Handler] decide where each
// stream goes, and forwards the stream's frames to an [Upstream] and back without unmarshalling them.
//
// It is independent of the gateway, and knows nothing of capabilities, tenants or policies: only HTTP/2 (RFC 9113),
// HPACK (RFC 7541) and the framing of gRPC.
//
//	listener ─ sniff ─┬─ HTTP/1.1 ───────────────────────► http.Handler
//	                  └─ HTTP/2 ─ conn ─ stream ─┬─ other ─► http.Handler
//	                                             └─ gRPC ──► Handler ─► Upstream ─ conn ─► backend
//	front door ─ Open, Unary ──────────────────────────┘    └► Serve ─ code in the process
//
// A shard is one lock over a set of client connections and the upstream connections that their streams use. Every
// event (bytes from a socket, a timer, a finished dial, a resumed stream) takes the lock, runs the state machines of
// conn.go and stream.go, writes the pending output of each connection once, and releases the lock. There is one
// goroutine per connection, which waits for its socket, and none per stream. The input of a connection is processed on
// a stack of the shard (turn_stack.go), so that idle connections need little memory.
//
// Code in the process uses streams without connections, framing or header coding. A front door starts calls with
// [Relay.Open], or with [Relay.Unary] for one message each way, and the Handler decides about them as about any other
// call: [Stream.Peer] is the client, and [Stream.RequestValue] is the front door's information about the caller. Whole
// messages are passed. Windows, deadlines, limits and groups apply as to connections, messages that wait for a reader
// are charged to the stream, Shutdown waits for all streams, and a shard that crashes ends its own streams.
//
// The Handler lets other code in the process serve a stream with [Stream.Serve]. The calls which that code makes for
// the stream are subrequests: [ServerStream.Continue] continues the same call, one continuation at a time, and a
// [Request] with a Parent is a separate call. The relay guarantees:
//
//   - A subrequest runs on its parent's shard, under its parent's lock.
//   - Its deadline is never later than its parent's, and it ends with its parent, except after [Handle.Detach].
//   - It never ends its parent.
//   - Its bytes are charged to its parent's group.
//   - A [Handle] is invalid after the functions that may use it have returned, and never refers to another call.
//
// The rest is up to the Handler: the destination of a stream that [Stream.Continues] another, the shared identity and
// decision of both, and their shared record.
//
// Code in the process never waits for a shard's lock. It adds an event to the shard's inbox and tries the lock. The
// holder of the lock handles the events of the inbox before it releases the lock, and signals the code once per turn.
// [Parked.Resume] uses the same mechanism.
//
// A request over HTTP/2 that is not gRPC is served in the same way: its handler gets the stream as an http.Request and
// an http.ResponseWriter, which behave as those of net/http's server. Such streams carry bytes, not messages.
//
//	accept                      listeners, TLS, connection limits, HTTP/1.1; http2.go takes over its connections
//	link_raw.go, link_tls.go    sockets by RawConn, and TLS over them; link_conn.go: any other net.Conn
//	shard.go, turn_stack.go     lock, timers, flushing; the stack of a turn
//	conn*.go, frame.go          HTTP/2 connection: frames, settings, flow control
//	stream*.go, half.go         one call: two halves, their windows, their pending bytes
//	inbox.go, park.go           events from goroutines without the lock; streams that wait for a decision
//	local*.go                   halves whose side is code in the process
//	client_*.go, server_*.go    Open and Serve: the end in the relay, and the stream of its user
//	handle.go                   subrequests
//	unary.go                    the same for one message each way
//	web*.go                     requests over HTTP/2 that are not gRPC, for the http.Handler
//	limits.go, group.go         limits of a stream; rates and memory shared by streams
//	age.go                      clients over HTTP/2 that must connect again, at another replica
//	upstream.go, pool.go        backends: dialling, choosing and retiring connections
//	run_queue.go                connections that have used their time slice
//	flood.go, usage.go          flood protection; memory held for a peer
//
// A slow, greedy or malicious peer costs at most 64 KiB for each open stream and direction, and 1 MiB for its
// connection, within a share of the memory of its shard ([Config]). It must finish in time what it begins. Work that
// it causes without effect is counted, and too much of it ends its connection with ENHANCE_YOUR_CALM (RFC 9113 §10.5).
// The same limits apply to a backend; a violation ends the backend's connection or the call, never a client's
// connection.
package relay
