package tenant

import (
	"strconv"
	"time"

	"github.com/capgate/capgate/internal/call"
)

// Which is one of the limits.
type Which uint8

// The limits. In metrics and errors they have these names.
const (
	CallsPerSecond Which = iota
	Concurrent
	BytesPerSecond
	ArtifactSize
	Messages
	BudgetDay
	BudgetMonth
	numWhich
)

// NumWhich is how many there are: each is below it.
const NumWhich = int(numWhich)

var whiches = [numWhich]struct{ name, reason, message string }{
	CallsPerSecond: {"calls_per_second", "RATE_LIMITED", "the tenant makes more calls per second than it may"},
	Concurrent:     {"concurrent", "TOO_MANY_CALLS", "the tenant has as many calls at once as it may"},
	BytesPerSecond: {"bytes_per_second", "BANDWIDTH_LIMITED", "the tenant moves more bytes per second than it may"},
	ArtifactSize:   {"artifact_size", "ARTIFACT_TOO_LARGE", "the artifact is larger than the tenant's may be"},
	Messages:       {"messages", "TOO_MANY_MESSAGES", "the stream has more messages than the tenant's may have"},
	BudgetDay:      {"budget_day", "BUDGET_EXHAUSTED", "the tenant has made all calls that it may make on one day"},
	BudgetMonth:    {"budget_month", "BUDGET_EXHAUSTED", "the tenant has made all calls that it may make in one month"},
}

func (w Which) String() string { return whiches[w].name }

// Reason is google.rpc.ErrorInfo.reason of a call that it refuses.
func (w Which) Reason() string { return whiches[w].reason }

// Exceeded refuses a call beyond a limit of its tenant, which is most. after is when another may
// go; 0: none like it ever will. Nothing is told but of the caller's own tenant.
func Exceeded(of string, w Which, most int64, after time.Duration) *call.Refusal {
	return &call.Refusal{
		Kind: call.ResourceExhausted, Reason: w.Reason(), Message: whiches[w].message + " (" + strconv.FormatInt(most, 10) + ")",
		Metadata:   map[string]string{"limit": w.String(), "max": strconv.FormatInt(most, 10)},
		RetryAfter: after, Quota: "tenant:" + of,
	}
}
