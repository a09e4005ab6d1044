package relay

import (
	"time"

	"github.com/capgate/capgate/gateway/relay/hpack"
)

// Handler decides how each gRPC stream is handled. The relay calls it with the stream's shard locked, on the goroutine
// that read the bytes: its methods must not block, and must not retain msg. A method that must wait parks the stream.
type Handler interface {
	// Headers is called when a stream's request headers are complete. Before it returns, it must call one of
	// ReadMessage, Forward, Serve, Reply, Refuse or Park.
	Headers(s *Stream)

	// Message is called when the first message requested by ReadMessage has arrived. It must make one of the same
	// calls, except ReadMessage.
	Message(s *Stream, msg Message)

	// Unsent is called when a forwarded stream provably did not start at the upstream: because of no connection,
	// REFUSED_STREAM, or a GOAWAY below it. The request is still complete: the Handler may Forward to another
	// upstream, Refuse or Park.
	Unsent(s *Stream, err error)

	// Again is called when an upstream failed a stream that it may have started to process: its connection or the
	// stream ended without a response, or its response is only the status UNAVAILABLE. The client has received nothing
	// of a response, and the request is still complete. If processing it twice is harmless, true marks the stream as
	// not sent: Unsent follows, with ErrLost. False ends it with the upstream's result. Again must not change the
	// stream.
	Again(s *Stream, a Answer) bool

	// Started is called when the response of an upstream has started. Neither Unsent nor Again is called after it.
	Started(s *Stream)

	// Exceeded is called when a stream exceeds its Limits, with TooManyBytes or TooManyMessages, once for each. True
	// ends the stream with that failure; false removes that limit.
	Exceeded(s *Stream, f Failure) bool

	// Explain returns the status that the client receives for a failure detected by the relay. Stream.Sent reports
	// whether the upstream may have started to process the stream.
	Explain(s *Stream, f Failure) Status

	// Done is called once for every stream that Headers was called for, when nothing more of it will be sent. The
	// stream must not be used afterwards.
	Done(s *Stream, r *Result)
}

// Message is a gRPC message: the first message of a stream for a Handler, or any message for the user of a local
// stream.
type Message struct {
	Data       []byte // without the five-byte prefix; valid for a Handler only during the call
	Compressed bool   // flag of the prefix: Data is encoded with grpc-encoding
	Missing    bool   // for a Handler: the client ended the stream without a message
}

// Answer holds the trailers of a response without other content, or no response.
type Answer struct {
	Given  bool // there was a response
	fields []hpack.Field
}

// NewAnswer returns a response with these trailers.
func NewAnswer(trailers ...hpack.Field) Answer { return Answer{Given: true, fields: trailers} }

// Trailer returns the first value of a trailer. The name must be in lower case. The value is valid only during Again.
func (a Answer) Trailer(name string) (string, bool) {
	for i := range a.fields {
		if f := &a.fields[i]; f.Name == name {
			return f.Value, true
		}
	}
	return "", false
}

// Status is a gRPC status for trailers.
type Status struct {
	Code    uint32 // google.rpc.Code
	Message string // UTF-8, percent-encoded by the relay
	Details []byte // serialized google.rpc.Status for grpc-status-details-bin, or nil

	Challenge string // for www-authenticate; empty means none
	NoRetry   bool   // gRPC clients must not retry by themselves (gRFC A6, grpc-retry-pushback-ms)

	// Local is true if the relay itself ended a call of a local client with this status. The relay chose Message.
	Local bool

	// Failure is the failure of the upstream, for UpstreamConfig.Serve only; it is set in Result. If it is
	// UpstreamLost, or Code is UNAVAILABLE, the stream may have started without a response: Handler.Again is called
	// first, unless the response has started.
	Failure Failure

	// Unsent is the reason why a stream provably did not start, for UpstreamConfig.Serve only. It is passed to
	// Handler.Unsent, unless the response has started. The other fields are then ignored.
	Unsent error
}

// Failure is the reason why the relay itself ends a stream.
type Failure uint8

// Failures.
const (
	NoFailure        Failure = iota
	UpstreamLost             // the connection ended after the stream may have started
	UpstreamProtocol         // the upstream violated HTTP/2
	DeadlineExceeded         // the deadline set by SetDeadline, or the client's, passed
	MessageTooLarge          // the first message is longer than HTTP2.MaxFirstMessage
	MessageMalformed         // a message's framing is broken or cut off, or it cannot be decoded
	MessageTimeout           // the first message did not come within Timeouts.Setup
	MemoryExceeded           // bytes held for slow readers exceeded Memory.MaxBuffered
	Draining                 // the relay is stopping and the drain timeout has passed
	ClientGone               // the client reset the stream or its connection ended
	ClientProtocol           // the client violated HTTP/2 on this stream
	TooManyBytes             // the stream exceeded Limits.Bytes
	TooManyMessages          // the stream exceeded Limits.Messages
	MessageFollowed          // a message followed the only allowed message
	Panicked                 // the Handler or the relay panicked
	AccountExceeded          // the stream's Account has no room left
	UpstreamReset            // the upstream reset the stream, with the code in Result.Code; Result.Upstream is true
	// UpstreamNotGRPC is a response that is not gRPC. Result.Code corresponds to its HTTP status, and Result.Upstream
	// is true.
	UpstreamNotGRPC
)

var failureNames = [...]string{"", "UPSTREAM_LOST", "UPSTREAM_PROTOCOL", "DEADLINE_EXCEEDED", "MESSAGE_TOO_LARGE",
	"MESSAGE_MALFORMED", "MESSAGE_TIMEOUT", "MEMORY_EXCEEDED", "DRAINING", "CLIENT_GONE", "CLIENT_PROTOCOL",
	"TOO_MANY_BYTES", "TOO_MANY_MESSAGES",
	"AMBIGUOUS_MESSAGE", "INTERNAL_PANIC", "MEMORY_EXCEEDED", "UPSTREAM_RESET", "UPSTREAM_NOT_GRPC"}

func (f Failure) String() string { return failureNames[f] }

// Result is the result of a stream. It is valid only during Done.
type Result struct {
	Code      uint32  // google.rpc.Code that ended the stream; 1 (CANCELLED) when the client left
	Failure   Failure // set if the relay ended the stream
	Upstream  bool    // Code came from the upstream
	BytesIn   int64   // DATA bytes from the client, prefixes included
	BytesOut  int64   // DATA bytes to the client
	Started   time.Time
	Forwarded time.Duration // time since Started of sending the request headers upstream; 0 means never
	FirstByte time.Duration // time since Started of receiving the response headers; 0 means never
	Ended     time.Duration // since Started
}

// Tap receives the DATA bytes that an upstream sends, in order and before they are forwarded. It must not retain or
// change p. It runs under the shard's lock.
type Tap interface {
	Body(p []byte)
}
