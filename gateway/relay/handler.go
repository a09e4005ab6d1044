package relay

import (
	"time"

	"github.com/capgate/capgate/gateway/relay/hpack"
)

// Handler decides what becomes of each gRPC stream. The relay calls it with the
// stream's shard locked, on the goroutine that read the bytes: its methods must
// not block, and must not keep msg. A method that has to wait parks the stream.
type Handler interface {
	// Headers is called when a stream's request headers are complete. Before it
	// returns it must call one of ReadMessage, Forward, Serve, Reply, Refuse or Park.
	Headers(s *Stream)

	// Message is called when the first message asked for by ReadMessage is there.
	// The same choice is due, less ReadMessage.
	Message(s *Stream, msg Message)

	// Unsent is called when a forwarded stream provably did not start at the
	// upstream: no connection, REFUSED_STREAM, or a GOAWAY below it. The request is
	// still whole: Forward to another upstream, Refuse or Park.
	Unsent(s *Stream, err error)

	// Again is asked when an upstream failed a stream that it may have begun to carry
	// out: its connection or the stream ended without an answer, or all that it
	// answered is the status UNAVAILABLE. Nothing of a response has gone to the client
	// and the request is still whole. Where carrying it out twice does no harm, true
	// makes the stream one that was not sent: Unsent follows, with ErrLost. False ends
	// it as the upstream did. Again must only say so, and leave the stream alone.
	Again(s *Stream, a Answer) bool

	// Exceeded is asked when a stream has brought more than Limit allows it, with
	// TooManyBytes or TooManyMessages; once for each. True ends it so, false lets it go on
	// without that limit.
	Exceeded(s *Stream, f Failure) bool

	// Explain turns a failure that the relay found itself into the status that the
	// client gets. Stream.Sent tells whether the upstream may have begun to carry it out.
	Explain(s *Stream, f Failure) Status

	// Done is called once for every stream that Headers was called for, when
	// nothing more of it will be sent. The stream must not be used afterwards.
	Done(s *Stream, r *Result)
}

// Message is a gRPC message: the first one of a stream, for a Handler, or any, for the user of a local stream.
type Message struct {
	Data       []byte // without the five-byte prefix; a Handler has it only during the call
	Compressed bool   // the prefix's flag: Data is encoded as grpc-encoding says
	Missing    bool   // for a Handler: the client ended the stream without sending a message
}

// Answer is the trailers of an upstream that said nothing else, or nothing at all.
type Answer struct {
	Given  bool // there was an answer
	fields []hpack.Field
}

// NewAnswer returns an answer with these trailers.
func NewAnswer(trailers ...hpack.Field) Answer { return Answer{Given: true, fields: trailers} }

// Trailer returns the first value of a trailer; name is in lower case. It is valid only
// during Again.
func (a Answer) Trailer(name string) (string, bool) {
	for i := range a.fields {
		if f := &a.fields[i]; f.Name == name {
			return f.Value, true
		}
	}
	return "", false
}

// Status is a gRPC status as it goes into trailers.
type Status struct {
	Code    uint32 // google.rpc.Code
	Message string // UTF-8, percent-encoded by the relay
	Details []byte // serialized google.rpc.Status for grpc-status-details-bin, or nil

	Challenge string // for www-authenticate; empty means none
	NoRetry   bool   // gRPC's clients shall not retry by themselves (gRFC A6, grpc-retry-pushback-ms)

	// Local reports that the relay itself has ended a call of a local client, whose status this is. Message is in the
	// relay's words.
	Local bool

	// Failure is how the upstream failed, for UpstreamConfig.Serve alone: Result has it. If it is UpstreamLost, or
	// Code is UNAVAILABLE, the stream may have started and has no answer: Handler.Again is asked first, unless the
	// response has begun.
	Failure Failure

	// Unsent is why a stream provably did not start, for UpstreamConfig.Serve alone: Handler.Unsent gets it, unless
	// the response has begun. The other fields are of no use then.
	Unsent error
}

// Failure is why the relay itself ends a stream.
type Failure uint8

// The failures.
const (
	NoFailure        Failure = iota
	UpstreamLost             // the connection ended after the stream may have started
	UpstreamProtocol         // the upstream broke HTTP/2
	DeadlineExceeded         // the deadline set by SetDeadline, or the client's, passed
	MessageTooLarge          // the first message is longer than HTTP2.MaxFirstMessage
	MessageMalformed         // the first message's framing is broken or cut off
	MessageTimeout           // the first message did not come within Timeouts.Setup
	MemoryExceeded           // bytes held for slow readers passed Memory.MaxBuffered
	Draining                 // the relay is stopping and the time for it is over
	ClientGone               // the client reset the stream or its connection ended
	ClientProtocol           // the client broke HTTP/2 on this stream
	TooManyBytes             // it brought more than Limits.Bytes
	TooManyMessages          // it brought more than Limits.Messages
	MessageFollowed          // something followed the message of a stream that has one alone
	Panicked                 // the Handler panicked, or the relay
	AccountExceeded          // its Account has no room for what is held for it
	UpstreamReset            // the upstream reset the stream; Result.Code is that of the reset, and its Upstream true
	// UpstreamNotGRPC is a response that is not gRPC. Result.Code corresponds to its HTTP status, and Result.Upstream
	// is true.
	UpstreamNotGRPC
)

var failureNames = [...]string{"", "UPSTREAM_LOST", "UPSTREAM_PROTOCOL", "DEADLINE_EXCEEDED", "MESSAGE_TOO_LARGE",
	"MESSAGE_MALFORMED", "MESSAGE_TIMEOUT", "MEMORY_EXCEEDED", "DRAINING", "CLIENT_GONE", "CLIENT_PROTOCOL",
	"TOO_MANY_BYTES", "TOO_MANY_MESSAGES",
	"AMBIGUOUS_MESSAGE", "INTERNAL_PANIC", "MEMORY_EXCEEDED", "UPSTREAM_RESET", "UPSTREAM_NOT_GRPC"}

func (f Failure) String() string { return failureNames[f] }

// Result is what became of a stream. It is valid only during Done.
type Result struct {
	Code      uint32  // google.rpc.Code that ended the stream; 1 (CANCELLED) when the client left
	Failure   Failure // why, when it was the relay that ended it
	Upstream  bool    // Code came from the upstream
	BytesIn   int64   // DATA bytes from the client, prefixes included
	BytesOut  int64   // DATA bytes to the client
	Started   time.Time
	Forwarded time.Duration // since Started: request headers sent upstream; 0 never
	FirstByte time.Duration // since Started: response headers came; 0 never
	Ended     time.Duration // since Started
}

// Tap sees the DATA bytes that an upstream sends, in order and before they go on.
// It must not keep or change p. It runs under the shard's lock.
type Tap interface {
	Body(p []byte)
}
