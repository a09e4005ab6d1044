package gateway

import (
	"errors"
	"time"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/lib/nearest"
	"github.com/capgate/capgate/internal/toolschema"
	"github.com/capgate/capgate/policy"
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
	refusedArtifacts = &call.Refusal{Kind: call.InvalidArgument, Reason: "ARTIFACTS_INVALID",
		Message: "the arguments name more than 64 artifacts, or one by an id that is longer than 512 bytes"}
	refusedTwoIdentities = &call.Refusal{Kind: call.InvalidArgument, Reason: "IDENTITY_CONFLICT",
		Message: "the call names two users or two agents: by metadata x-user-id or x-agent-id twice, or by user_id of its context otherwise than by metadata"}
	refusedDeliberating = &call.Refusal{Kind: call.Unavailable, Reason: "POLICY_UNKNOWN", RetryAfter: time.Second,
		Message: "too many calls wait to know whether they may run"}
	refusedConsent = &call.Refusal{Kind: call.InvalidArgument, Reason: "APPROVAL_INVALID",
		Message: "metadata x-approval-id may be there once, and x-approval-wait once, a number of seconds"}
	refusedUnapprovable = &call.Refusal{Kind: call.FailedPrecondition, Reason: "APPROVAL_IMPOSSIBLE",
		Message: "a person would have to approve this call, but only calls of a tool, by Invoke or StreamInvoke, can be approved"}
	refusedUnread = &call.Refusal{Kind: call.Unavailable, Reason: "POLICY_UNKNOWN", RetryAfter: time.Second,
		Message: "what the call brings has to be looked at since a moment ago, and was not"}
	refusedUnjudgeable = &call.Refusal{Kind: call.PermissionDenied, Reason: "SHIELD_BLOCKED",
		Message: "a Shield judges the calls of this capability, and only calls of a tool, by Invoke or StreamInvoke, can be judged"}
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

// forbidden is the end of a call that policy does not allow.
func forbidden(c *call.Call, d policy.Decision) *call.Refusal {
	r := &call.Refusal{
		Kind: call.PermissionDenied, Reason: "TOOL_BLOCKED", Message: "a policy blocks this tool",
		Metadata: map[string]string{"capability": c.Capability, "level": d.Level.String()},
	}
	switch {
	case d.Verdict == call.Ask:
		r.Kind = call.FailedPrecondition
		r.Reason = "APPROVAL_REQUIRED"
		r.Message = "this tool may only run after a person has approved the call"
	case d.Level == policy.Default:
		r.Message = "nothing allows this tool: no rule, no manifest, nor the policy of its fleet"
	}
	return r
}

// approvalRequired is the end of a call that a person is asked about: its caller may come
// again with the approval's id.
func approvalRequired(c *call.Call, o *outcome) *call.Refusal {
	r := forbidden(c, o.decision)
	r.Metadata["approval"] = o.asked.ID
	r.Metadata["expires"] = o.asked.Expires.UTC().Format(time.RFC3339)
	r.RetryAfter = comeAgain
	return r
}

// invalidArguments is the end of a call whose arguments are not what its tool takes.
func invalidArguments(c *call.Call, err error) *call.Refusal {
	r := ambiguous(c, theArguments, "ARGUMENTS_INVALID", err)
	var at *toolschema.Violation
	if errors.As(err, &at) {
		r.Metadata["pointer"] = at.Pointer
	}
	return r
}

// schemaUnknown is the end of a call whose arguments are to be checked against what nobody
// has said, or not yet.
func schemaUnknown(c *call.Call, tools []string) *call.Refusal {
	r := &call.Refusal{
		Kind: call.FailedPrecondition, Reason: "SCHEMA_UNKNOWN",
		Message:  "the arguments cannot be checked: it is not known that the capability has this tool, nor what it takes",
		Metadata: map[string]string{"capability": c.Capability, "tool": c.Tool},
	}
	if len(tools) > 0 {
		r.Message += nearest.Hint(c.Tool, tools) + "; it has " + nearest.List(tools, maxNamed)
	}
	return r
}

// invalidConfig is the end of a call whose config_json names what it may not. err repeats
// nothing of it.
func invalidConfig(c *call.Call, err error) *call.Refusal {
	return &call.Refusal{
		Kind: call.InvalidArgument, Reason: "CONFIG_INVALID", Message: "config_json " + err.Error(),
		Metadata: map[string]string{"capability": c.Capability, "tool": c.Tool},
	}
}

// lacking is the end of a call of an RPC that the caller's dialect does not have.
func lacking(m call.Method) *call.Refusal {
	return &call.Refusal{Kind: call.Unimplemented, Reason: "DIALECT_UNSUPPORTED",
		Message: "the legacy dialect, in which the call is made, has no " + m.String() + ": make it in another one"}
}

// untranslatable is the end of a call that the backend's dialect cannot say.
func untranslatable(m call.Method, d call.Dialect) *call.Refusal {
	return &call.Refusal{Kind: call.Unimplemented, Reason: "DIALECT_UNSUPPORTED",
		Message: "the capability's backend speaks the " + d.String() + " dialect, which has no " + m.String()}
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
