package call

import (
	"fmt"
	"strings"
	"time"
)

// Kind is why the gateway itself refuses a call. gateway/status.go turns it into
// a gRPC code and an HTTP status; nothing else does.
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
)

// Refusal is the gateway's own "no". It is immutable: the common ones are built
// once and shared by every call.
type Refusal struct {
	Kind       Kind
	Reason     string            // google.rpc.ErrorInfo.reason, UPPER_SNAKE_CASE, one of a bounded set
	Message    string            // for a person; never holds arguments, config or credentials
	Metadata   map[string]string // google.rpc.ErrorInfo.metadata
	RetryAfter time.Duration     // > 0: the caller may try again after it
	// google.rpc.QuotaFailure's subject, whose limit it is, as in tenant:acme; "" where it is of no limit
	Quota string
}

func (r *Refusal) Error() string { return r.Reason + ": " + r.Message }

// InvalidField refuses a request of which one field is not as it must be.
func InvalidField(reason, field, text string) *Refusal {
	return &Refusal{Kind: InvalidArgument, Reason: reason, Message: field + ": " + text,
		Metadata: map[string]string{"field": field}}
}

// UnknownCapability refuses who names a capability that is not there, or not there for
// them: the two are not told apart.
func UnknownCapability(name string) *Refusal {
	name = Quote(name)
	return &Refusal{
		Kind:     NotFound,
		Reason:   "CAPABILITY_UNKNOWN",
		Message:  fmt.Sprintf("no capability %q is configured", name),
		Metadata: map[string]string{"capability": name},
	}
}

// Quote copies a name out of a caller's buffer, in a form fit for an error.
func Quote(name string) string {
	if len(name) > maxLabel {
		name = name[:maxLabel] + "…"
	}
	return strings.Clone(strings.ToValidUTF8(name, "\uFFFD"))
}
