package tenant

import (
	"strconv"
	"strings"
	"time"

	"github.com/capgate/capgate/internal/call"
)

// exceeded is what is told to who goes beyond a limit: the reason, and a message for people.
var exceeded = [call.NumLimits]struct{ reason, message string }{
	call.CallsPerSecond: {reason: "RATE_LIMITED", message: "the tenant makes more calls per second than it may"},
	call.Concurrent:     {reason: "TOO_MANY_CALLS", message: "the tenant has as many calls at once as it may"},
	call.BytesPerSecond: {reason: "BANDWIDTH_LIMITED", message: "the tenant moves more bytes per second than it may"},
	call.ArtifactSize:   {reason: "ARTIFACT_TOO_LARGE", message: "the artifact is larger than the tenant's may be"},
	call.Messages: {reason: "TOO_MANY_MESSAGES",
		message: "the stream has more messages than the tenant's may have"},
	call.PerDay: {reason: "BUDGET_EXHAUSTED",
		message: "the tenant has made all calls that it may make on one day"},
	call.PerMonth: {reason: "BUDGET_EXHAUSTED",
		message: "the tenant has made all calls that it may make in one month"},
}

// Exceeded refuses a call beyond a limit of its tenant, which is most. after is when another may
// go, which is told in whole milliseconds; 0: none like it ever will. Nothing is told but of the caller's own tenant.
func Exceeded(of string, l call.Limit, most int64, after time.Duration) *call.Refusal {
	value := strconv.FormatInt(most, 10)
	return &call.Refusal{
		Kind: call.ResourceExhausted, Reason: exceeded[l].reason, Message: exceeded[l].message + " (" + value + ")",
		Metadata:   map[string]string{"limit": l.String(), "max": value},
		RetryAfter: (after + time.Millisecond - 1).Truncate(time.Millisecond), Quota: "tenant:" + of,
	}
}

// LimitExceeded is Exceeded for a limit of some calls of a tenant. Of some, Per, Capability and Tool say which
// they are.
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
