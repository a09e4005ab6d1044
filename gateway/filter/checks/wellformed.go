package checks

import (
	"github.com/capgate/capgate/gateway/filter"
	"github.com/capgate/capgate/internal/call"
)

// WellFormed rejects a call whose path or headers two programs could read differently, or whose messages are not
// protobuf.
func WellFormed(c *filter.Call) *call.Refusal { return wellFormed(c, true) }

// WellFormedAny is WellFormed for messages of any encoding.
func WellFormedAny(c *filter.Call) *call.Refusal { return wellFormed(c, false) }

func wellFormed(c *filter.Call, proto bool) *call.Refusal {
	switch s := c.Stream; {
	case c.Service == "":
		return refusedPath
	case s.Repeated() != "":
		return repeatedHeader(s.Repeated())
	case proto && !s.Proto():
		return refusedContentType
	case s.Contradicts(filter.CapabilityHeader):
		return refusedTwoKeys
	}
	return nil
}

func repeatedHeader(name string) *call.Refusal {
	return &call.Refusal{Kind: call.InvalidArgument, Reason: "AMBIGUOUS_HEADERS",
		Metadata: map[string]string{"header": name},
		Message:  "the call has the header " + name + " more than once; send it once"}
}

var (
	refusedContentType = &call.Refusal{Kind: call.Unimplemented, Reason: "CONTENT_TYPE_UNSUPPORTED",
		Message: "calls of capabilities and engines must have exactly the content-type application/grpc or " +
			"application/grpc+proto"}
	refusedPath = &call.Refusal{Kind: call.Unimplemented, Reason: "METHOD_UNKNOWN",
		Message: "the path is not that of a gRPC method: it must be /package.Service/Method, with letters, digits " +
			"and underscores"}
	refusedTwoKeys = &call.Refusal{Kind: call.InvalidArgument, Reason: "ROUTING_KEY_CONFLICT",
		Message: "the call has metadata x-capability-id twice, with different values"}
)
