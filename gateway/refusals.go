package gateway

import (
	"time"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/router"
)

// The refusals that need nothing from the call, shared by all.
var (
	refusedDownload = &call.Refusal{Kind: call.InvalidArgument, Reason: "REQUEST_MALFORMED",
		Message: "the request is not a well-formed DownloadOutputArtifactRequest"}
	refusedTwoSessions = &call.Refusal{Kind: call.InvalidArgument, Reason: "SESSION_CONFLICT",
		Message: "the call names two sessions, by session_id of the message and by metadata x-session-id, or twice by the latter"}
	refusedSession = &call.Refusal{Kind: call.InvalidArgument, Reason: "SESSION_INVALID",
		Message: "the session's id is longer than 512 bytes"}
	refusedTwoIdentities = &call.Refusal{Kind: call.InvalidArgument, Reason: "IDENTITY_CONFLICT",
		Message: "the call names two users or two agents: by metadata x-user-id or x-agent-id twice, or by user_id of its context otherwise than by metadata"}
	refusedTwoKeys = &call.Refusal{Kind: call.InvalidArgument, Reason: "ROUTING_KEY_CONFLICT",
		Message: "the call has metadata x-capability-id twice, with different values"}
	refusedMethod = &call.Refusal{Kind: call.Unimplemented, Reason: "METHOD_UNKNOWN",
		Message: "the gateway has no method of this name"}
	refusedEncoding = &call.Refusal{Kind: call.Unimplemented, Reason: "ENCODING_UNSUPPORTED",
		Message: "the request is compressed otherwise than by gzip: name the capability by metadata x-capability-id, or send it plain"}
	refusedInflating = &call.Refusal{Kind: call.ResourceExhausted, Reason: "TOO_MANY_COMPRESSED", RetryAfter: time.Second,
		Message: "too many compressed requests at once that name no capability by metadata x-capability-id"}
	refusedTooLong = &call.Refusal{Kind: call.ResourceExhausted, Reason: "MESSAGE_TOO_LARGE",
		Message: "the request is longer than the gateway accepts"}
)

// lacking is the end of a call of an RPC that the caller's dialect does not have.
func lacking(m call.Method) *call.Refusal {
	return &call.Refusal{Kind: call.Unimplemented, Reason: "DIALECT_UNSUPPORTED",
		Message: "the legacy dialect, in which the call is made, has no " + m.String() + ": make it in another one"}
}

// healthReply answers Healthcheck for a capability from what health knows. Its bytes
// are the same in the doc and the live dialect, ready=1, message=2; legacy has the first
// alone.
func healthReply(f *router.Fleet, d call.Dialect) []byte {
	ready, summary := f.Health().Ready()
	var msg []byte
	if ready {
		msg = protowire.AppendVarint(protowire.AppendTag(msg, 1, protowire.VarintType), 1)
	}
	if d == call.Legacy {
		return msg
	}
	return protowire.AppendString(protowire.AppendTag(msg, 2, protowire.BytesType), summary)
}
