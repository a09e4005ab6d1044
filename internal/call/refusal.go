package call

import (
	"fmt"
	"strings"
	"time"

	"github.com/capgate/capgate/internal/lib/untrusted"
)

// Kind is the kind of a refusal. gateway/status alone converts it into a gRPC code and an HTTP status.
type Kind uint8

// The kinds of refusal, named like the gRPC codes that they become.
const (
	Internal Kind = iota
	InvalidArgument
	NotFound
	PermissionDenied
	Unauthenticated
	ResourceExhausted
	FailedPrecondition
	Unimplemented
	Unavailable
	DeadlineExceeded
	Canceled
	AlreadyExists
	Aborted
	DataLoss
	Unknown // a backend reported the error in an answer with status OK
)

// Reasons of calls that wait for a person's approval.
const (
	ApprovalRequired = "APPROVAL_REQUIRED"
	ApprovalPending  = "APPROVAL_PENDING"
)

// Asked reports whether a refusal means that the call needs approval, after which it may run.
func Asked(reason string) bool { return reason == ApprovalRequired || reason == ApprovalPending }

// NotStarted is a key of google.rpc.ErrorInfo.metadata. Its value is "true" where no backend got the call: repeating it
// does no harm.
const NotStarted = "not_started"

// Refusal is the gateway's own rejection of a call. It is immutable: common refusals are allocated once and
// shared.
type Refusal struct {
	Kind       Kind
	Reason     string            // google.rpc.ErrorInfo.reason, UPPER_SNAKE_CASE, one of a bounded set
	Message    string            // for a person; never holds arguments, config or credentials
	Metadata   map[string]string // google.rpc.ErrorInfo.metadata
	RetryAfter time.Duration     // > 0: the caller may retry after it
	// Progress is Sent if the reason itself implies it: the request may have been carried out, by a backend
	// or for an earlier call that this one repeats. Otherwise the progress of the call counts.
	Progress Progress
	// Quota is google.rpc.QuotaFailure's subject, the owner of the limit, as in tenant:acme; "" for other
	// refusals.
	Quota string
}

func (r *Refusal) Error() string { return r.Reason + ": " + r.Message }

// InvalidField returns the refusal of a request with an invalid field.
func InvalidField(reason, field, text string) *Refusal {
	return &Refusal{Kind: InvalidArgument, Reason: reason, Message: field + ": " + text,
		Metadata: map[string]string{"field": field}}
}

// UnknownCapability returns the refusal of a capability that does not exist, or is invisible for the caller.
// The two cases look the same. The argument near is a name that the caller may have meant, and may see; "": none.
func UnknownCapability(name, near string) *Refusal {
	name = Quote(name)
	text := fmt.Sprintf("no capability %q is configured; ", name)
	if near != "" {
		text += fmt.Sprintf("did you mean %q? ", near)
	}
	return &Refusal{
		Kind:     NotFound,
		Reason:   "CAPABILITY_UNKNOWN",
		Message:  text + "GET /v1/capabilities lists those that you may call",
		Metadata: map[string]string{"capability": name},
	}
}

// Quote copies a name out of a caller's buffer, in a form fit for an error.
func Quote(name string) string {
	return strings.Clone(untrusted.Clip(name, maxLabel))
}
