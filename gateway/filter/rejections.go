package filter

import (
	"time"

	"github.com/capgate/capgate/gateway/status"
	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/overload"
	"github.com/capgate/capgate/internal/tenant"
	"github.com/capgate/capgate/router"
)

// RetryLater is the retry time for the client of a shed call.
const RetryLater = time.Second

// Rejections that several filters share.
var (
	OverFairShare = &call.Refusal{Kind: call.ResourceExhausted, Reason: "OVERLOADED", RetryAfter: RetryLater,
		Message: "the gateway is overloaded, and this tenant uses more than its share"}
	Overloaded = &call.Refusal{Kind: call.Unavailable, Reason: "OVERLOADED", RetryAfter: RetryLater,
		Message: "the gateway is overloaded"}
	OverMemoryShare = &call.Refusal{Kind: call.ResourceExhausted, Reason: "OVERLOADED", RetryAfter: RetryLater,
		Message: "this tenant has used its share of the gateway's memory"}
	OverAddressShare = &call.Refusal{Kind: call.ResourceExhausted, Reason: "OVERLOADED", RetryAfter: RetryLater,
		Message: "unauthenticated callers at this address have used their share of the gateway's memory"}
	Panicked  = status.Panicked
	NoMessage = &call.Refusal{Kind: call.InvalidArgument, Reason: "REQUEST_MISSING",
		Message: "the call ended without a request message"}
	Malformed = &call.Refusal{Kind: call.InvalidArgument, Reason: "REQUEST_MALFORMED",
		Message: "the request is not a well-formed InvokeRequest"}
	TwoIdentities = &call.Refusal{Kind: call.InvalidArgument, Reason: "IDENTITY_CONFLICT",
		Message: "the call names two users or two agents: the metadata x-user-id or x-agent-id occurs twice, or " +
			"user_id of its context differs from the metadata"}
	ShuttingDown = &call.Refusal{Kind: call.Unavailable, Reason: "SERVICE_UNAVAILABLE",
		Message: "the gateway is shutting down"}
	// AttemptLost rejects a call whose backend failed and may have carried it out, and that had no other attempt.
	AttemptLost = &call.Refusal{Kind: call.Unavailable, Reason: "UPSTREAM_LOST", Progress: call.Sent,
		Message: "the backend failed, and the call was not sent to another one; the call may have been carried out"}
	// CallOver rejects a call that continues although its client already has an answer.
	CallOver = &call.Refusal{Kind: call.Canceled, Reason: "CLIENT_GONE", Message: "the caller left"}
)

// OutOfMemory returns the rejection of a call whose owner has no memory left. The call counts as shed.
func (c *Call) OutOfMemory() *call.Refusal {
	c.Shed = overload.Pools
	switch {
	case c.Principal.Settings != nil:
		return OverMemoryShare
	case c.Info.Tenant == "":
		return OverAddressShare
	}
	return Overloaded
}

// TooMany returns the rejection of a caller that has reached its limit of waiting requests, or of memory.
func TooMany(who tenant.Identity) *call.Refusal {
	if who.Settings == nil { // there is only one tenant, or it is unknown
		return Overloaded
	}
	return OverFairShare
}

// retryUnreachable is the retry time for callers of an unreachable fleet: about the time until health detects a
// change.
const retryUnreachable = time.Second

// Unreachable returns the rejection of a call that no backend accepted. It provably did not start, so that the client
// may retry.
func Unreachable(f *router.Fleet) *call.Refusal {
	r := &call.Refusal{
		Kind:     call.Unavailable,
		Reason:   "BACKEND_UNREACHABLE",
		Message:  "no backend of the capability " + f.Capability + " could be reached",
		Metadata: map[string]string{"capability": f.Capability},

		RetryAfter: retryUnreachable,
	}
	if told := f.PublicReason(); told != "" {
		r.Message += ": " + told
	}
	return r
}

// ScopeMissing returns the rejection of a call whose credential lacks a scope.
func ScopeMissing(scope tenant.Scopes, message string) *call.Refusal {
	return &call.Refusal{Kind: call.PermissionDenied, Reason: "SCOPE_MISSING",
		Message:  message + ": it lacks the scope " + scope.String(),
		Metadata: map[string]string{"scope": scope.String()}}
}
