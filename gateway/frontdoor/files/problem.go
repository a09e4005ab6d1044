package files

import (
	"errors"
	"fmt"

	"github.com/capgate/capgate/internal/call"
)

// begun marks r as the rejection of a request that the capability may have received in part.
func begun(r *call.Refusal) *call.Refusal {
	r.Progress = call.Sent
	return r
}

// refusedByCapability returns a capability's own error.
func refusedByCapability(kind call.Kind, text string) *call.Refusal {
	return &call.Refusal{Kind: kind, Reason: "ARTIFACT_REFUSED", Message: text, Progress: call.Sent}
}

func tooLarge(most int64) *call.Refusal {
	return &call.Refusal{Kind: call.ResourceExhausted, Reason: "BODY_TOO_LARGE",
		Message: fmt.Sprintf("the body is larger than %d bytes", most)}
}

func badHeader(name, want string) *call.Refusal {
	return &call.Refusal{Kind: call.InvalidArgument, Reason: "INVALID_HEADER",
		Message: fmt.Sprintf("the header %s %s", name, want)}
}

func badForm(why string) *call.Refusal {
	return &call.Refusal{Kind: call.InvalidArgument, Reason: "INVALID_FORM", Message: why}
}

// broken returns the refusal of a body that was cut off.
func broken() *call.Refusal {
	return &call.Refusal{Kind: call.InvalidArgument, Reason: "UPLOAD_CUT_OFF",
		Message: "the body was truncated; nothing of the file was stored", Progress: call.Sent}
}

func stalled() *call.Refusal {
	return &call.Refusal{Kind: call.DeadlineExceeded, Reason: "UPLOAD_STALLED",
		Message: "no more data of the body arrived for too long", Progress: call.Sent}
}

func isStalled(err error) bool {
	var r *call.Refusal
	return errors.As(err, &r) && r.Kind == call.DeadlineExceeded
}

func mismatch() *call.Refusal {
	return &call.Refusal{Kind: call.InvalidArgument, Reason: "DIGEST_MISMATCH",
		Message: "the content does not match its digest; nothing of the file was stored", Progress: call.Sent}
}

// unread returns the error of an upload whose capability responded before it had read all of it.
func unread() *call.Refusal {
	return &call.Refusal{Kind: call.DataLoss, Reason: "ARTIFACT_NOT_READ",
		Message: "the capability responded before it had received the whole file, or without " +
			"an id", Progress: call.Sent}
}

// cutOff returns the error of a download without its last chunk, whose gRPC status is OK.
func cutOff() *call.Refusal {
	return &call.Refusal{Kind: call.DataLoss, Reason: "ANSWER_CUT_OFF",
		Message: "the capability ended the file before its last chunk; the file is incomplete", Progress: call.Sent}
}
