package idempotency

import (
	"slices"
	"strings"

	"github.com/capgate/capgate/gateway/filter"
	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/idempotency"
)

// keyHeader is metadata with the idempotency key of a gRPC call, if its fleet uses it.
const keyHeader = "idempotency-key"

// KeyFilter reads and checks a call's idempotency key.
type KeyFilter struct{ off bool }

// NewKeyFilter returns a KeyFilter for the calls of s.
func NewKeyFilter(s *Server) KeyFilter { return KeyFilter{off: s == nil} }

// Admit implements filter.Filter.
func (f KeyFilter) Admit(c *filter.Call, s *State) filter.Step {
	key, present, twice := keyOf(c, s)
	switch {
	case !present:
	case c.Info.Method == call.StreamInvoke || c.Info.Method == call.UploadInputArtifact:
		return c.Reject(rejectedStream)
	case c.Info.Method != call.Invoke:
	case twice || !idempotency.Valid(key):
		return c.Reject(rejectedKey)
	case f.off:
		return c.Reject(rejectedOff)
	default:
		s.keyed, c.Keyed = &keyed{key: strings.Clone(key), ended: make(chan ending, 1)}, true
	}
	return filter.Continue
}

// Done implements filter.Filter.
func (KeyFilter) Done(*filter.Call, *State, *filter.Result) {}

// keyOf removes the idempotency key from a call. The key comes from the front door, or, if the gateway handles the
// keys of the fleet, from the metadata. twice is true if there are different keys.
func keyOf(c *filter.Call, s *State) (key string, present, twice bool) {
	if len(s.Given) > 0 {
		key = s.Given[0]
		return key, true, slices.ContainsFunc(s.Given, func(other string) bool { return other != key })
	}
	if !c.Fleet.Keyed() {
		return "", false, false
	}
	if key, present = c.Stream.Header(keyHeader); !present {
		return "", false, false
	}
	twice = c.Stream.Contradicts(keyHeader)
	c.Stream.DropHeader(keyHeader)
	return key, true, twice
}

var (
	rejectedStream = &call.Refusal{Kind: call.Unimplemented, Reason: "IDEMPOTENCY_UNSUPPORTED",
		Message: "responses of streams and uploads are not stored: send this call without an idempotency key, or " +
			"call the tool without a stream"}
	rejectedKey = &call.Refusal{Kind: call.InvalidArgument, Reason: "IDEMPOTENCY_KEY_INVALID",
		Message: "an idempotency key must have 1 to 255 printable ASCII characters, and a call may have only one"}
	rejectedOff = &call.Refusal{Kind: call.FailedPrecondition, Reason: "IDEMPOTENCY_OFF",
		Message: "this gateway takes no idempotency keys"}
)
