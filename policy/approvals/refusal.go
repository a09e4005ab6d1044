package approvals

import (
	"errors"
	"strings"
	"time"

	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/lib/strictjson"
)

// The refusals that are the same for every call.
var (
	refusedUnavailable = &call.Refusal{Kind: call.Unavailable, Reason: "APPROVALS_UNAVAILABLE", RetryAfter: time.Second,
		Message: "approvals cannot be read or written at the moment"}
	refusedFull = &call.Refusal{Kind: call.ResourceExhausted, Reason: "APPROVALS_FULL", RetryAfter: 10 * time.Second,
		Message: "too many calls of this tenant wait for approval already"}
	refusedNames = &call.Refusal{Kind: call.InvalidArgument, Reason: "ARGUMENTS_INVALID",
		Message: "a name in the call is longer than 1024 bytes, so that nobody can be asked about it"}
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

// unreadable is the end of a call whose arguments or configuration not every reader
// understands alike, so that a person would approve one thing, and another would run.
func unreadable(reason, what string, err error) *call.Refusal {
	var text *strictjson.Error
	if errors.As(err, &text) && text.Ambiguous {
		reason = "AMBIGUOUS_ARGUMENTS"
	}
	return &call.Refusal{Kind: call.InvalidArgument, Reason: reason, Message: what + err.Error()}
}

// maxComment is how much of what an approver wrote the caller of a denied call is told, in bytes: it goes into
// a header. It is the approver's own text, in which nothing moves a cursor or turns the direction of a line.
const maxComment = 512

// refusedDenied says that a call was denied, and why, in the approver's words.
func refusedDenied(message, id, comment string) *call.Refusal {
	r := refused("APPROVAL_DENIED", message, id)
	if reason := readable(comment, maxComment); reason != "" {
		r.Message += ": " + reason
		r.Metadata["comment"] = reason
	}
	return r
}

// refused is what a call gets whose approval does not let it run.
func refused(reason, message, id string) *call.Refusal {
	return &call.Refusal{Kind: call.PermissionDenied, Reason: reason, Message: message,
		Metadata: map[string]string{"approval": clip(id, maxName)}}
}

// refusedState says why an approval in a state cannot be used.
func refusedState(s State, id string) *call.Refusal {
	switch s {
	case Pending:
		return refused("APPROVAL_PENDING", "the call is not approved yet", id)
	case Denied:
		return refusedDenied("the call was denied", id, "")
	case Expired:
		return refused("APPROVAL_EXPIRED", "the approval's time is over", id)
	case Used:
		return refused("APPROVAL_USED", "the approval was for one call, which has been made", id)
	}
	return refused("APPROVAL_UNKNOWN", "there is no such approval", id)
}

func refusedMismatch(words []string, id string) *call.Refusal {
	r := refused("APPROVAL_MISMATCH", "the approval is of another call; these differ: "+strings.Join(words, ", "), id)
	r.Metadata["differs"] = strings.Join(words, ",")
	return r
}

// refusedAnswer says that an approval cannot be answered any more.
func refusedAnswer(a *Approval) *call.Refusal {
	return &call.Refusal{Kind: call.FailedPrecondition, Reason: "APPROVAL_NOT_PENDING",
		Message:  "the approval is " + a.State.String() + ", so that it cannot be answered",
		Metadata: map[string]string{"approval": a.ID, "state": a.State.String()}}
}

// refusedUnknown is for who looks for an approval.
func refusedUnknown(id string) *call.Refusal {
	r := refusedState(0, id)
	r.Kind = call.NotFound
	return r
}

func refusedRemember(message string) *call.Refusal {
	return &call.Refusal{Kind: call.FailedPrecondition, Reason: "APPROVAL_NOT_REMEMBERED", Message: message}
}
