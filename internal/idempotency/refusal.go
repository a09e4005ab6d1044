package idempotency

import (
	"time"

	"github.com/capgate/capgate/internal/call"
)

// The refusals of calls with a key.
var (
	refusedOff = &call.Refusal{Kind: call.FailedPrecondition, Reason: "IDEMPOTENCY_OFF",
		Message: "idempotency keys are disabled: the gateway has no key to encrypt responses (secret_file)"}
	refusedUnavailable = &call.Refusal{Kind: call.Unavailable, Reason: "IDEMPOTENCY_UNAVAILABLE",
		RetryAfter: time.Second, Message: "the store of idempotency keys is unavailable; the call was not made, " +
			"retry later"}
	refusedBusy = &call.Refusal{Kind: call.Unavailable, Reason: "IDEMPOTENCY_UNAVAILABLE", RetryAfter: time.Second,
		Message: "too many calls with idempotency keys are in flight; this one was not made, retry later"}
	refusedFull = &call.Refusal{Kind: call.ResourceExhausted, Reason: "IDEMPOTENCY_KEYS_FULL",
		Message: "the tenant has the maximum number of idempotency keys; the call was not made"}
	refusedReused = &call.Refusal{Kind: call.InvalidArgument, Reason: "IDEMPOTENCY_KEY_REUSED",
		Message: "this idempotency key was used for another call, with another tool, session or arguments; use a new " +
			"key"}
	refusedUnknown = &call.Refusal{Kind: call.Aborted, Reason: "IDEMPOTENCY_OUTCOME_UNKNOWN", Progress: call.Sent,
		Message: "whether the first call with this idempotency key was executed is unknown; " +
			"it is not made again with this key"}
	refusedTooLarge = &call.Refusal{Kind: call.AlreadyExists, Reason: "IDEMPOTENCY_ANSWER_TOO_LARGE",
		Progress: call.Sent, Message: "the first call with this idempotency key was executed; its response has more " +
			"than 64 KiB, and is not stored"}
	refusedLeft = &call.Refusal{Kind: call.Canceled, Reason: "CLIENT_GONE", Progress: call.Sent,
		Message: "the caller left"}
)
