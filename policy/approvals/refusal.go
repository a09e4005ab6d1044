package approvals

import (
	"errors"
	"strings"
	"time"

	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/lib/strictjson"
	"github.com/capgate/capgate/internal/lib/untrusted"
)

// The refusals without parameters.
var (
	refusedUnavailable = &call.Refusal{Kind: call.Unavailable, Reason: "APPROVALS_UNAVAILABLE", RetryAfter: time.Second,
		Message: "approvals are unavailable at the moment; retry later"}
	refusedFull = &call.Refusal{Kind: call.ResourceExhausted, Reason: "APPROVALS_FULL", RetryAfter: 10 * time.Second,
		Message: "too many calls of this tenant are already waiting for approval"}
	refusedNames = &call.Refusal{Kind: call.InvalidArgument, Reason: "ARGUMENTS_INVALID",
		Message: "a name in the call is longer than 1024 bytes, the limit for approvals"}
)

func refusedArguments(err error) *call.Refusal {
	r := unreadable("ARGUMENTS_INVALID", "the arguments: ", err)
	var text *strictjson.Error
	if errors.As(err, &text) {
		r.Message = "the JSON of the arguments " + text.Error()
	}
	return r
}

func refusedConfig(err error) *call.Refusal { return unreadable("CONFIG_INVALID", "config_json ", err) }

// unreadable refuses arguments or a configuration that parsers could read differently: the approver could
// see another call than the one that runs.
func unreadable(reason, what string, err error) *call.Refusal {
	var text *strictjson.Error
	if errors.As(err, &text) && text.Ambiguous {
		reason = "AMBIGUOUS_ARGUMENTS"
	}
	return &call.Refusal{Kind: call.InvalidArgument, Reason: reason, Message: what + err.Error()}
}

// maxComment bounds the approver's comment in the refusal of a denied call, in bytes: it goes into a
// header. Its characters are printable.
const maxComment = 512

// refusedDenied reports a denial with the approver's comment. In the message the comment is on one line: its lines
// cannot pass for others in a log or a terminal of the caller.
func refusedDenied(message, id, comment string) *call.Refusal {
	r := refused("APPROVAL_DENIED", message, id)
	if reason := readable(comment, maxComment); reason != "" {
		r.Message += ": " + oneLine.Replace(reason)
		r.Metadata["comment"] = reason
	}
	return r
}

// refusedRepeat rejects a call that was denied, and says until when the denial holds.
func refusedRepeat(a *Approval) *call.Refusal {
	until := a.Expires.UTC().Format(time.RFC3339)
	r := refusedDenied("this call was denied, until "+until, a.ID, a.Comment)
	r.Metadata["expires"] = until
	return r
}

var oneLine = strings.NewReplacer("\n", " ", "\t", " ") //nolint:gochecknoglobals // a constant

// refusedElsewhere rejects an answer to a question that only the backend's own user interface can answer.
func refusedElsewhere(a *Approval) *call.Refusal {
	return &call.Refusal{Kind: call.FailedPrecondition, Reason: "APPROVAL_ELSEWHERE",
		Message: "the gateway cannot answer this question: " + a.Why,
		Metadata: map[string]string{"approval": untrusted.Truncate(a.ID, maxName), "capability": a.Capability,
			"session": a.Session}}
}

// RefusedUnseen returns the refusal of a call that cannot be approved because its arguments cannot be shown in full.
func RefusedUnseen(a *Approval) *call.Refusal {
	why := "its arguments are too long to be stored, so only their beginning can be shown"
	if a.Unreadable {
		why = "the key that encrypts its arguments is not configured, so they cannot be shown"
	}
	return &call.Refusal{Kind: call.FailedPrecondition, Reason: "APPROVAL_NOT_SHOWN",
		Message:  "the call can be denied, but not approved: " + why,
		Metadata: map[string]string{"approval": untrusted.Truncate(a.ID, maxName)}}
}

// refused refuses a call because of its approval.
func refused(reason, message, id string) *call.Refusal {
	return &call.Refusal{Kind: call.PermissionDenied, Reason: reason, Message: message,
		Metadata: map[string]string{"approval": untrusted.Truncate(id, maxName)}}
}

// refusedState explains why an approval in a state cannot be redeemed.
func refusedState(s State, id string) *call.Refusal {
	switch s {
	case Pending:
		return refused(call.ApprovalPending, "the call is not approved yet", id)
	case Denied:
		return refusedDenied("the call was denied", id, "")
	case Expired:
		return refused("APPROVAL_EXPIRED", "the approval has expired", id)
	case Used:
		r := refused("APPROVAL_USED", "the approval has been used; it was for one call", id)
		r.Progress = call.Sent // that call
		return r
	}
	return refused("APPROVAL_UNKNOWN", "the approval does not exist", id)
}

func refusedMismatch(words []string, id string) *call.Refusal {
	r := refused("APPROVAL_MISMATCH", "the approval is for another call; these fields differ: "+strings.Join(words,
		", "), id)
	r.Metadata["differs"] = strings.Join(words, ",")
	return r
}

// refusedAnswer returns the refusal of an answer to an approval that is no longer pending.
func refusedAnswer(a *Approval) *call.Refusal {
	return &call.Refusal{Kind: call.FailedPrecondition, Reason: "APPROVAL_NOT_PENDING",
		Message:  "the approval is " + a.State.String() + ", and can no longer be answered",
		Metadata: map[string]string{"approval": a.ID, "state": a.State.String()}}
}

// refusedUnknown returns the refusal of a lookup of an unknown approval.
func refusedUnknown(id string) *call.Refusal {
	r := refusedState(0, id)
	r.Kind = call.NotFound
	return r
}

func refusedRemember(message string) *call.Refusal {
	return &call.Refusal{Kind: call.FailedPrecondition, Reason: "APPROVAL_NOT_REMEMBERED", Message: message}
}
