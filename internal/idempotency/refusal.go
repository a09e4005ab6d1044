package idempotency

import (
	"time"

	"github.com/capgate/capgate/internal/call"
)

// The refusals of calls that have a key.
var (
	refusedOff = &call.Refusal{Kind: call.FailedPrecondition, Reason: "IDEMPOTENCY_OFF",
		Message: "this gateway takes no idempotency keys: it has no key to encrypt answers with (idempotency.key_file)"}
	refusedAway = &call.Refusal{Kind: call.Unavailable, Reason: "IDEMPOTENCY_UNAVAILABLE", RetryAfter: time.Second,
		Message: "it cannot be found out whether a call with this idempotency key was made before; this one was not"}
	refusedBusy = &call.Refusal{Kind: call.Unavailable, Reason: "IDEMPOTENCY_UNAVAILABLE", RetryAfter: time.Second,
		Message: "too many calls with idempotency keys are under way; this one was not made"}
	refusedFull = &call.Refusal{Kind: call.ResourceExhausted, Reason: "IDEMPOTENCY_KEYS_FULL",
		Message: "as many idempotency keys of this tenant are kept as may be (idempotency.max_keys); the call was not made"}
	refusedReused = &call.Refusal{Kind: call.InvalidArgument, Reason: "IDEMPOTENCY_KEY_REUSED",
		Message: "another call was made with this idempotency key: one of another tool or session, or with other arguments"}
	refusedUnknown = &call.Refusal{Kind: call.Aborted, Reason: "IDEMPOTENCY_OUTCOME_UNKNOWN",
		Message: "the first call with this idempotency key may have been carried out, and nobody knows; it is not made again under this key"}
	refusedTooLarge = &call.Refusal{Kind: call.AlreadyExists, Reason: "IDEMPOTENCY_ANSWER_TOO_LARGE",
		Message: "the first call with this idempotency key was carried out; its answer was too large to be kept (idempotency.max_answer)"}
	refusedLeft = &call.Refusal{Kind: call.Canceled, Reason: "CLIENT_GONE",
		Message: "the caller left"}
)
