package tenant

import (
	"strconv"
	"strings"
	"time"

	"github.com/capgate/capgate/internal/call"
)

// exceeded has the reason and the message of the refusal for each limit.
var exceeded = [call.NumLimits]struct{ reason, message string }{
	call.CallsPerSecond: {reason: "RATE_LIMITED", message: "the tenant has exceeded its calls per second"},
	call.Concurrent:     {reason: "TOO_MANY_CALLS", message: "the tenant has reached its limit of concurrent calls"},
	call.BytesPerSecond: {reason: "BANDWIDTH_LIMITED", message: "the tenant has exceeded its bytes per second"},
	call.ArtifactSize:   {reason: "ARTIFACT_TOO_LARGE", message: "the artifact is larger than the tenant's limit"},
	call.Messages: {reason: "TOO_MANY_MESSAGES",
		message: "the stream has more messages than the tenant's limit"},
	call.PerDay: {reason: "BUDGET_EXHAUSTED",
		message: "the tenant has used its daily quota of calls"},
	call.PerMonth: {reason: "BUDGET_EXHAUSTED",
		message: "the tenant has used its monthly quota of calls"},
}

// Exceeded returns the refusal of a call beyond a limit of its tenant. The limit is most. A retry may succeed after the
// duration after, which is rounded to milliseconds; 0: never. The refusal reveals nothing about other tenants.
func Exceeded(of string, l call.Limit, most int64, after time.Duration) *call.Refusal {
	value := strconv.FormatInt(most, 10)
	return &call.Refusal{
		Kind: call.ResourceExhausted, Reason: exceeded[l].reason, Message: exceeded[l].message + " (" + value + ")",
		Metadata:   map[string]string{"limit": l.String(), "max": value},
		RetryAfter: (after + time.Millisecond - 1).Truncate(time.Millisecond), Quota: "tenant:" + of,
	}
}

// LimitExceeded is Exceeded for a limit of some of the tenant's calls. Per, Capability and Tool of some tell
// which.
func LimitExceeded(of string, some Limit, l call.Limit, most int64, after time.Duration) *call.Refusal {
	r := Exceeded(of, l, most, after)
	if some.Per == "user" || some.Per == "agent" {
		r.Message = strings.Replace(r.Message, "the tenant", "the "+some.Per, 1)
	}
	switch {
	case some.Tool != "":
		r.Message = strings.TrimSuffix(r.Message, ")") + " for this tool)"
	case some.Capability != "" || some.Per == "capability":
		r.Message = strings.TrimSuffix(r.Message, ")") + " for this capability)"
	}
	for name, value := range map[string]string{"per": some.Per, "capability": some.Capability, "tool": some.Tool} {
		if value != "" {
			r.Metadata[name] = value
		}
	}
	return r
}
